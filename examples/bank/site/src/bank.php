<?php
// What the bank knows, in MariaDB. Values reach the database apart from the statements, never within them.
declare(strict_types=1);

final class Bank
{
    /** Of no password: checked when there is no such customer. */
    public const NOBODYS_HASH = '$2y$10$abcdefghijklmnopqrstuuE1rUz9l7zVUsgcq4K0fR3ZUMxGpQ5Wq';
    private const SHOWN = 20;

    private function __construct(private PDO $database)
    {
    }

    public static function open(array $config): self
    {
        return new self(new PDO($config['dsn'], $config['user'], $config['password'], [
            PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
            PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_ASSOC,
            PDO::ATTR_EMULATE_PREPARES => false,
        ]));
    }

    public function customer_by_login(string $login): ?array
    {
        return $this->rows('SELECT id, password_hash FROM customers WHERE login = ?', $login)[0] ?? null;
    }

    public function customer(int $id): ?array
    {
        return $this->rows('SELECT login, name FROM customers WHERE id = ?', $id)[0] ?? null;
    }

    public function accounts(int $customer): array
    {
        return $this->rows('SELECT id, title, cents FROM accounts WHERE customer = ? ORDER BY id', $customer);
    }

    /** The latest transfers from and to a customer's accounts. */
    public function transfers(int $customer): array
    {
        return $this->rows(
            'SELECT t.made_at, t.source, t.target, t.cents, t.reason, a.id = t.source AS is_out
             FROM accounts a JOIN transfers t ON a.id IN (t.source, t.target)
             WHERE a.customer = ? ORDER BY t.id DESC LIMIT ' . self::SHOWN,
            $customer
        );
    }

    /** Moves money, or says why not. */
    public function transfer(int $customer, int $from, int $to, int $cents, string $reason): ?string
    {
        if ($cents <= 0 || $from === $to) {
            return 'There is nothing to move.';
        }
        $this->database->beginTransaction();
        // Both rows at once and in one order: two transfers in opposite directions never wait for each other.
        $found = $this->rows(
            'SELECT id, customer, cents FROM accounts WHERE id IN (?, ?) ORDER BY id FOR UPDATE',
            $from,
            $to
        );
        $accounts = array_column($found, null, 'id');
        $why_not = match (true) {
            !isset($accounts[$from]) || $accounts[$from]['customer'] !== $customer => 'This account is not yours.',
            !isset($accounts[$to]) => 'There is no such account.',
            $accounts[$from]['cents'] < $cents => 'There is not that much in the account.',
            default => null,
        };
        if ($why_not !== null) {
            $this->database->rollBack();
            return $why_not;
        }
        $this->run('UPDATE accounts SET cents = cents - ? WHERE id = ?', $cents, $from);
        $this->run('UPDATE accounts SET cents = cents + ? WHERE id = ?', $cents, $to);
        $this->run(
            'INSERT INTO transfers (source, target, cents, reason) VALUES (?, ?, ?, ?)',
            $from,
            $to,
            $cents,
            $reason
        );
        $this->database->commit();
        return null;
    }

    public function run(string $statement, int|string ...$values): PDOStatement
    {
        $prepared = $this->database->prepare($statement);
        $prepared->execute($values);
        return $prepared;
    }

    private function rows(string $statement, int|string ...$values): array
    {
        return $this->run($statement, ...$values)->fetchAll();
    }
}
