<?php
/*
 * A mail server to try Roundcube with: mail.php FOLDER. It speaks as much of IMAP (RFC 3501) and SMTP (RFC 5321) as a webmail
 * needs, on two ports of 127.0.0.1 (FOLDER/ports) and without TLS. Its users are the lines NAME PASSWORD of FOLDER/users; what is sent to one of them is in their INBOX, and
 * mail to others is refused: nothing leaves the machine. Mailboxes are one file each in FOLDER. It is no mail server for anything else.
 */
declare(strict_types=1);

const LINE_BYTES_MAX = 65536;
const MAIL_BYTES_MAX = 32 << 20;
const FLAGS = '\Answered \Flagged \Deleted \Seen \Draft';

/** The mailboxes of one user: name, then a list of messages with uid, flags, date and text. */
class Account
{
    public array $boxes;
    public int $next;

    public function __construct(private string $file)
    {
        $kept = is_file($file) ? unserialize(file_get_contents($file), ['allowed_classes' => false]) : [];
        $this->boxes = $kept['boxes'] ?? ['INBOX' => [], 'Drafts' => [], 'Sent' => [], 'Trash' => [], 'Junk' => []];
        $this->next = $kept['next'] ?? 1;
    }

    public function keep(): void
    {
        file_put_contents("$this->file.new", serialize(['boxes' => $this->boxes, 'next' => $this->next]));
        rename("$this->file.new", $this->file);
    }

    public function add(string $box, string $text, array $flags): int
    {
        $this->boxes[$box][] = ['uid' => $this->next, 'flags' => $flags, 'date' => time(), 'text' => $text];
        $this->keep();
        return $this->next++;
    }
}

/** A part of a message (RFC 2045): its head and body as they are, its type, and the parts of a multipart. */
function part(string $text): array
{
    [$head, $body] = explode("\r\n\r\n", $text, 2) + [1 => ''];
    $field = function (string $name, string $default) use ($head): string {
        return preg_match("/^$name:[ \\t]*((?:.|\\r\\n[ \\t])*)/im", $head, $found) ? preg_replace('/\r\n\s+/', ' ', trim($found[1])) : $default;
    };
    preg_match('#^([\w+.-]+)/([\w+.-]+)#', $field('Content-Type', 'text/plain; charset=us-ascii'), $type);
    preg_match_all('/;\s*([\w*-]+)=(?:"([^"]*)"|([^\s;]+))/', $field('Content-Type', 'text/plain; charset=us-ascii'), $found, PREG_SET_ORDER);
    $parameters = [];
    foreach ($found as $one) {
        $parameters[strtolower($one[1])] = $one[2] !== '' ? $one[2] : ($one[3] ?? '');
    }
    $parts = [];
    if (strtolower($type[1] ?? '') === 'multipart' && isset($parameters['boundary'])) {
        foreach (array_slice(explode("\r\n--{$parameters['boundary']}", "\r\n$body"), 1) as $piece) {
            if (str_starts_with($piece, '--')) {
                break;
            }
            $parts[] = part(preg_replace('/^[ \t]*\r\n/', '', $piece));
        }
    }
    return ['head' => "$head\r\n\r\n", 'body' => $body, 'type' => $type[1] ?? 'text', 'subtype' => $type[2] ?? 'plain', 'parameters' => $parameters,
        'coding' => $field('Content-Transfer-Encoding', '7bit'), 'disposition' => $field('Content-Disposition', ''), 'id' => $field('Content-ID', ''), 'parts' => $parts];
}

function quoted(string $text): string
{
    return $text === '' ? 'NIL' : '"' . addcslashes(preg_replace('/[\r\n]/', ' ', $text), '"\\') . '"';
}

function listed(array $pairs): string
{
    $all = [];
    foreach ($pairs as $name => $value) {
        $all[] = quoted((string) $name) . ' ' . quoted($value);
    }
    return $all ? '(' . implode(' ', $all) . ')' : 'NIL';
}

function structure(array $part): string
{
    if ($part['parts']) {
        return '(' . implode('', array_map('structure', $part['parts'])) . ' ' . quoted($part['subtype']) . ' ' . listed($part['parameters']) . ' NIL NIL)';
    }
    $lines = strtolower($part['type']) === 'text' ? ' ' . substr_count($part['body'], "\r\n") : '';
    $disposition = 'NIL';
    if (preg_match('/^([\w-]+)(.*)$/s', $part['disposition'], $found)) {
        preg_match_all('/;\s*([\w*-]+)=(?:"([^"]*)"|([^\s;]+))/', $found[2], $all, PREG_SET_ORDER);
        $values = [];
        foreach ($all as $one) {
            $values[$one[1]] = $one[2] !== '' ? $one[2] : ($one[3] ?? '');
        }
        $disposition = '(' . quoted($found[1]) . ' ' . listed($values) . ')';
    }
    return '(' . quoted($part['type']) . ' ' . quoted($part['subtype']) . ' ' . listed($part['parameters']) . ' ' . quoted($part['id']) . ' NIL '
        . quoted($part['coding']) . ' ' . strlen($part['body']) . "$lines NIL $disposition NIL)";
}

/** What BODY[SECTION] means (RFC 3501, 6.4.5). */
function section(string $text, string $section): string
{
    $part = part($text);
    $is_whole = true;
    while (preg_match('/^(\d+)\.?(.*)$/', $section, $found)) {
        $section = $found[2];
        // The first part of what has no parts is its body.
        $part = $part['parts'][$found[1] - 1] ?? ($part['parts'] || $found[1] !== '1' ? null : $part);
        $is_whole = false;
        if (!$part) {
            return '';
        }
    }
    if ($section === '') {
        return $is_whole ? $text : $part['body'];
    }
    if ($section === 'TEXT') {
        return $part['body'];
    }
    if (!preg_match('/^HEADER\.FIELDS(\.NOT)? \((.*)\)$/', $section, $found)) {
        return $part['head'];
    }
    $names = explode(' ', strtoupper(str_replace('"', '', $found[2])));
    $fields = preg_split('/\r\n(?![ \t])/', rtrim($part['head']));
    $wanted = fn ($field) => in_array(strtoupper(strtok($field, ':')), $names, true) === ($found[1] === '');
    return implode('', array_map(fn ($field) => "$field\r\n", array_filter($fields, $wanted))) . "\r\n";
}

/** Atoms, strings and lists of a command (RFC 3501, 4); what is in brackets belongs to its atom. */
function tokens(string $text, int &$at = 0): array
{
    $all = [];
    while ($at < strlen($text)) {
        if (preg_match('/\G\{(\d+)\+?\}\r\n/', $text, $found, 0, $at)) {
            $at += strlen($found[0]);
            $all[] = substr($text, $at, (int) $found[1]);
            $at += (int) $found[1];
        } elseif (preg_match('/\G"((?:[^"\\\\]|\\\\.)*)"/s', $text, $found, 0, $at)) {
            $at += strlen($found[0]);
            $all[] = stripslashes($found[1]);
        } elseif ($text[$at] === '(') {
            $at++;
            $all[] = tokens($text, $at);
        } elseif ($text[$at] === ')') {
            $at++;
            return $all;
        } elseif (preg_match('/\G(?:[^\s()\[\]"{}]|\[[^\]]*\])+/', $text, $found, 0, $at)) {
            $at += strlen($found[0]);
            $all[] = $found[0];
        } else {
            $at++;
        }
    }
    return $all;
}

/** One connection: bytes come by take(), answers leave by `send`. */
abstract class Connection
{
    public string $in = '';
    public bool $is_over = false;

    public function __construct(private $stream, protected Server $server)
    {
    }

    protected function send(string $text): void
    {
        while ($text !== '') {
            $count = @fwrite($this->stream, $text);
            if (!$count) {
                $this->is_over = true;
                return;
            }
            $text = substr($text, $count);
        }
    }

    abstract public function take(): void;
}

class Imap extends Connection
{
    private ?Account $account = null;
    private ?string $box = null;
    /** How much of `in` was asked for as literals already. */
    private int $seen = 0;

    public function greet(): void
    {
        $this->send("* OK [CAPABILITY IMAP4rev1 UIDPLUS] ready\r\n");
    }

    public function take(): void
    {
        while (!$this->is_over && ($end = strpos($this->in, "\r\n", $this->seen)) !== false) {
            $line = substr($this->in, 0, $end);
            if (preg_match('/\{(\d+)(\+?)\}$/', $line, $found)) {
                if ($found[1] > MAIL_BYTES_MAX) {
                    $this->is_over = true;
                    return;
                }
                if ($found[2] === '' && strlen($this->in) === $end + 2) {
                    $this->send("+ go on\r\n");
                }
                if (strlen($this->in) < $end + 2 + $found[1] + 2) {
                    // The literal and the end of its line are awaited.
                    return;
                }
                $this->seen = $end + 2 + (int) $found[1];
                continue;
            }
            $this->in = substr($this->in, $end + 2);
            $this->seen = 0;
            $words = tokens($line);
            $tag = array_shift($words);
            if (is_string($tag) && $words) {
                $this->obey($tag, strtoupper((string) array_shift($words)), $words);
            }
        }
        $this->is_over = $this->is_over || strlen($this->in) > MAIL_BYTES_MAX + LINE_BYTES_MAX;
    }

    private function obey(string $tag, string $name, array $words): void
    {
        $by_uid = $name === 'UID';
        if ($by_uid) {
            $name = strtoupper((string) array_shift($words));
        }
        $open = ['CAPABILITY', 'NOOP', 'LOGIN', 'LOGOUT', 'ID'];
        $method = 'do_' . strtolower($name);
        if (!method_exists($this, $method)) {
            $this->send("$tag BAD unknown command\r\n");
        } elseif (!$this->account && !in_array($name, $open, true)) {
            $this->send("$tag NO log in first\r\n");
        } else {
            $said = $this->$method($words, $by_uid);
            $this->send("$tag " . ($said ?? 'OK done') . "\r\n");
        }
    }

    private function do_capability(): void
    {
        $this->send("* CAPABILITY IMAP4rev1 UIDPLUS\r\n");
    }

    private function do_id(): void
    {
        $this->send("* ID NIL\r\n");
    }

    private function do_noop(): void
    {
        if ($this->box !== null) {
            $this->send('* ' . count($this->account->boxes[$this->box]) . " EXISTS\r\n");
        }
    }

    private function do_logout(): void
    {
        $this->send("* BYE\r\n");
        $this->is_over = true;
    }

    private function do_login(array $words): ?string
    {
        $this->account = $this->server->log_in((string) ($words[0] ?? ''), (string) ($words[1] ?? ''));
        return $this->account ? null : 'NO [AUTHENTICATIONFAILED] wrong name or password';
    }

    private function do_list(array $words): void
    {
        $this->lists('LIST', $words);
    }

    private function do_lsub(array $words): void
    {
        $this->lists('LSUB', $words);
    }

    private function lists(string $name, array $words): void
    {
        $pattern = (string) end($words);
        if ($pattern === '') {
            $this->send("* $name (\\Noselect) \"/\" \"\"\r\n");
            return;
        }
        $expression = '#^' . str_replace(['\*', '%'], ['.*', '[^/]*'], preg_quote($pattern, '#')) . '$#i';
        foreach (array_keys($this->account->boxes) as $box) {
            if (preg_match($expression, (string) $box)) {
                $this->send("* $name (\\HasNoChildren) \"/\" " . quoted((string) $box) . "\r\n");
            }
        }
    }

    private function named(array $words): ?string
    {
        $name = strcasecmp((string) ($words[0] ?? ''), 'INBOX') === 0 ? 'INBOX' : (string) ($words[0] ?? '');
        return isset($this->account->boxes[$name]) ? $name : null;
    }

    private function do_select(array $words): ?string
    {
        $this->box = $this->named($words);
        if ($this->box === null) {
            return 'NO [NONEXISTENT] there is no such mailbox';
        }
        $this->send("* FLAGS (" . FLAGS . ")\r\n* " . count($this->account->boxes[$this->box]) . " EXISTS\r\n* 0 RECENT\r\n* OK [PERMANENTFLAGS (" . FLAGS
            . ")]\r\n* OK [UIDVALIDITY 1]\r\n* OK [UIDNEXT {$this->account->next}]\r\n");
        return 'OK [READ-WRITE] selected';
    }

    private function do_examine(array $words): ?string
    {
        return $this->do_select($words);
    }

    private function do_close(): void
    {
        $this->do_expunge([], false);
        $this->box = null;
    }

    private function do_status(array $words): ?string
    {
        $name = $this->named($words);
        if ($name === null) {
            return 'NO [NONEXISTENT] there is no such mailbox';
        }
        $messages = $this->account->boxes[$name];
        $unseen = array_filter($messages, fn ($message) => !in_array('\Seen', $message['flags'], true));
        $values = ['MESSAGES' => count($messages), 'UNSEEN' => count($unseen), 'RECENT' => 0, 'UIDNEXT' => $this->account->next, 'UIDVALIDITY' => 1];
        $said = [];
        foreach ((array) ($words[1] ?? []) as $item) {
            $said[] = strtoupper($item) . ' ' . ($values[strtoupper($item)] ?? 0);
        }
        $this->send('* STATUS ' . quoted($name) . ' (' . implode(' ', $said) . ")\r\n");
        return null;
    }

    private function do_create(array $words): void
    {
        $this->account->boxes[(string) $words[0]] ??= [];
        $this->account->keep();
    }

    private function do_subscribe(): void
    {
    }

    private function do_unsubscribe(): void
    {
    }

    private function do_append(array $words): ?string
    {
        $name = $this->named($words);
        if ($name === null) {
            return 'NO [TRYCREATE] there is no such mailbox';
        }
        $flags = is_array($words[1] ?? null) ? $words[1] : [];
        $uid = $this->account->add($name, (string) end($words), $flags);
        return "OK [APPENDUID 1 $uid] kept";
    }

    /** Indices of the messages of a set such as 1:3,7,9:*. */
    private function chosen(string $set, bool $by_uid): array
    {
        $messages = $this->account->boxes[$this->box ?? ''] ?? [];
        $last = $by_uid ? ($messages ? end($messages)['uid'] : 0) : count($messages);
        $all = [];
        foreach (explode(',', $set) as $range) {
            [$from, $to] = array_map(fn ($end) => $end === '*' ? $last : (int) $end, explode(':', $range) + [1 => $range]);
            foreach ($messages as $at => $message) {
                $number = $by_uid ? $message['uid'] : $at + 1;
                if ($number >= min($from, $to) && $number <= max($from, $to)) {
                    $all[$at] = $at;
                }
            }
        }
        return array_values($all);
    }

    private function do_fetch(array $words, bool $by_uid): void
    {
        $items = is_array($words[1] ?? null) ? $words[1] : array_slice($words, 1);
        foreach ($this->chosen((string) $words[0], $by_uid) as $at) {
            $said = array_map(fn ($item) => $this->item($at, (string) $item), $items);
            if ($by_uid && !in_array('UID', array_map(fn ($item) => strtoupper((string) $item), $items), true)) {
                array_unshift($said, $this->item($at, 'UID'));
            }
            $this->send('* ' . ($at + 1) . ' FETCH (' . implode(' ', $said) . ")\r\n");
        }
    }

    private function item(int $at, string $item): string
    {
        $message = &$this->account->boxes[$this->box][$at];
        $name = strtoupper($item);
        if (preg_match('/^BODY(\.PEEK)?\[(.*)\](?:<(\d+)\.(\d+)>)?$/s', $name, $found)) {
            $text = section($message['text'], $found[2]);
            $text = isset($found[3]) ? substr($text, (int) $found[3], (int) $found[4]) : $text;
            if ($found[1] === '' && !in_array('\Seen', $message['flags'], true)) {
                $message['flags'][] = '\Seen';
                $this->account->keep();
            }
            return "BODY[$found[2]]" . (isset($found[3]) ? "<$found[3]>" : '') . ' {' . strlen($text) . "}\r\n$text";
        }
        return match ($name) {
            'UID' => "UID {$message['uid']}",
            'FLAGS' => 'FLAGS (' . implode(' ', $message['flags']) . ')',
            'INTERNALDATE' => 'INTERNALDATE "' . gmdate('d-M-Y H:i:s +0000', $message['date']) . '"',
            'RFC822.SIZE' => 'RFC822.SIZE ' . strlen($message['text']),
            'BODYSTRUCTURE', 'BODY' => "$name " . structure(part($message['text'])),
            default => "$name NIL",
        };
    }

    private function do_store(array $words, bool $by_uid): void
    {
        $what = strtoupper((string) $words[1]);
        $flags = array_map(fn ($flag) => ucfirst(strtolower($flag)), (array) $words[2]);
        $flags = array_map(fn ($flag) => preg_replace_callback('/^\\\\(.)/', fn ($found) => '\\' . strtoupper($found[1]), $flag), $flags);
        foreach ($this->chosen((string) $words[0], $by_uid) as $at) {
            $had = $this->account->boxes[$this->box][$at]['flags'];
            $has = $what[0] === '+' ? array_merge($had, $flags) : ($what[0] === '-' ? array_diff($had, $flags) : $flags);
            $this->account->boxes[$this->box][$at]['flags'] = array_values(array_unique($has));
            if (!str_ends_with($what, '.SILENT')) {
                $this->send('* ' . ($at + 1) . ' FETCH (' . $this->item($at, 'UID') . ' ' . $this->item($at, 'FLAGS') . ")\r\n");
            }
        }
        $this->account->keep();
    }

    private function do_copy(array $words, bool $by_uid): ?string
    {
        $to = $this->named([$words[1] ?? '']);
        if ($to === null) {
            return 'NO [TRYCREATE] there is no such mailbox';
        }
        foreach ($this->chosen((string) $words[0], $by_uid) as $at) {
            $message = $this->account->boxes[$this->box][$at];
            $this->account->add($to, $message['text'], $message['flags']);
        }
        return null;
    }

    private function do_expunge(array $words, bool $by_uid): void
    {
        $may = $by_uid ? $this->chosen((string) $words[0], true) : null;
        $messages = $this->account->boxes[$this->box ?? ''] ?? [];
        foreach (array_reverse(array_keys($messages)) as $at) {
            if (in_array('\Deleted', $messages[$at]['flags'], true) && ($may === null || in_array($at, $may, true))) {
                unset($messages[$at]);
                $this->send('* ' . ($at + 1) . " EXPUNGE\r\n");
            }
        }
        if ($this->box !== null) {
            $this->account->boxes[$this->box] = array_values($messages);
            $this->account->keep();
        }
    }

    /** ALL, flags, UID, and words of headers and texts. */
    private function do_search(array $words, bool $by_uid): void
    {
        $found = [];
        foreach ($this->account->boxes[$this->box ?? ''] ?? [] as $at => $message) {
            if ($this->matches($message, $words)) {
                $found[] = $by_uid ? $message['uid'] : $at + 1;
            }
        }
        $this->send('* SEARCH' . implode('', array_map(fn ($number) => " $number", $found)) . "\r\n");
    }

    private function matches(array $message, array $words): bool
    {
        $has = fn (string $flag) => in_array($flag, $message['flags'], true);
        $is_it = true;
        while ($words) {
            $word = strtoupper((string) array_shift($words));
            $is_it = $is_it && match ($word) {
                'UNSEEN' => !$has('\Seen'), 'SEEN' => $has('\Seen'), 'DELETED' => $has('\Deleted'), 'UNDELETED', 'NOT' => !$has('\Deleted'),
                'FLAGGED' => $has('\Flagged'), 'ANSWERED' => $has('\Answered'),
                'SUBJECT', 'FROM', 'TO' => stripos(section($message['text'], "HEADER.FIELDS ($word)"), (string) array_shift($words)) !== false,
                'BODY', 'TEXT' => stripos($message['text'], (string) array_shift($words)) !== false,
                'HEADER' => stripos(section($message['text'], 'HEADER.FIELDS (' . array_shift($words) . ')'), (string) array_shift($words)) !== false,
                'CHARSET' => array_shift($words) !== null, default => true,
            };
        }
        return $is_it;
    }
}

class Smtp extends Connection
{
    /** The users to whom the mail goes. */
    private array $to = [];
    private ?string $data = null;

    public function greet(): void
    {
        $this->send("220 127.0.0.1 ESMTP\r\n");
    }

    public function take(): void
    {
        while (!$this->is_over && ($end = strpos($this->in, "\r\n")) !== false) {
            $line = substr($this->in, 0, $end);
            $this->in = substr($this->in, $end + 2);
            $this->data === null ? $this->obey($line) : $this->text($line);
        }
        $this->is_over = $this->is_over || strlen($this->in) > LINE_BYTES_MAX || strlen($this->data ?? '') > MAIL_BYTES_MAX;
    }

    private function text(string $line): void
    {
        if ($line !== '.') {
            $this->data .= (str_starts_with($line, '.') ? substr($line, 1) : $line) . "\r\n";
            return;
        }
        foreach ($this->to as $name) {
            $this->server->account($name)->add('INBOX', $this->data, []);
        }
        [$this->data, $this->to] = [null, []];
        $this->send("250 kept\r\n");
    }

    private function obey(string $line): void
    {
        $name = strtoupper(strtok($line, ' :'));
        if ($name === 'EHLO') {
            $this->send("250-127.0.0.1\r\n250-8BITMIME\r\n250 SIZE " . MAIL_BYTES_MAX . "\r\n");
        } elseif ($name === 'RCPT') {
            preg_match('/<([^@>]+)/', $line, $found);
            $is_known = $this->server->has($found[1] ?? '');
            if ($is_known) {
                $this->to[] = $found[1];
            }
            $this->send($is_known ? "250 ok\r\n" : "550 there is no such user here\r\n");
        } elseif ($name === 'DATA') {
            $this->data = $this->to ? '' : null;
            $this->send($this->to ? "354 go on\r\n" : "554 to whom?\r\n");
        } elseif ($name === 'QUIT') {
            $this->send("221 bye\r\n");
            $this->is_over = true;
        } else {
            if ($name === 'RSET') {
                $this->to = [];
            }
            $this->send(in_array($name, ['HELO', 'MAIL', 'RSET', 'NOOP'], true) ? "250 ok\r\n" : "502 no such command\r\n");
        }
    }
}

class Server
{
    /** Names and passwords. */
    private array $users = [];
    private array $accounts = [];
    /** Class of the connections, by the stream that listens. */
    private array $listening = [];
    private array $streams = [];
    private array $connections = [];

    public function __construct(private string $folder)
    {
        foreach (file("$folder/users", FILE_IGNORE_NEW_LINES | FILE_SKIP_EMPTY_LINES) as $line) {
            [$name, $password] = explode(' ', $line, 2);
            $this->users[$name] = $password;
        }
    }

    public function has(string $name): bool
    {
        return isset($this->users[$name]);
    }

    public function account(string $name): Account
    {
        return $this->accounts[$name] ??= new Account("$this->folder/" . rawurlencode($name) . '.mail');
    }

    public function log_in(string $name, string $password): ?Account
    {
        $name = strtok($name, '@') ?: '';
        return $this->has($name) && hash_equals($this->users[$name], $password) ? $this->account($name) : null;
    }

    /** Gives the port. */
    public function listen(string $class): string
    {
        $stream = stream_socket_server('tcp://127.0.0.1:0', $code, $why) ?: exit("$why\n");
        $this->streams[(int) $stream] = $stream;
        $this->listening[(int) $stream] = $class;
        return substr(strrchr(stream_socket_get_name($stream, false), ':'), 1);
    }

    public function run(): never
    {
        for (;;) {
            [$ready, $none] = [$this->streams, null];
            stream_select($ready, $none, $none, null);
            foreach ($ready as $stream) {
                isset($this->listening[(int) $stream]) ? $this->accept($stream) : $this->receive($stream);
            }
        }
    }

    private function accept($listening): void
    {
        $stream = @stream_socket_accept($listening, 0);
        if ($stream) {
            $this->streams[(int) $stream] = $stream;
            $this->connections[(int) $stream] = new $this->listening[(int) $listening]($stream, $this);
            $this->connections[(int) $stream]->greet();
        }
    }

    private function receive($stream): void
    {
        $connection = $this->connections[(int) $stream];
        $bytes = @fread($stream, 65536);
        if ($bytes === '' || $bytes === false) {
            $connection->is_over = true;
        } else {
            $connection->in .= $bytes;
            $connection->take();
        }
        if ($connection->is_over) {
            unset($this->streams[(int) $stream], $this->connections[(int) $stream]);
            fclose($stream);
        }
    }
}

$server = new Server($argv[1]);
$ports = $server->listen(Imap::class) . ' ' . $server->listen(Smtp::class);
file_put_contents("$argv[1]/mail.pid", getmypid());
file_put_contents("$argv[1]/ports.new", $ports);
rename("$argv[1]/ports.new", "$argv[1]/ports");
$server->run();
