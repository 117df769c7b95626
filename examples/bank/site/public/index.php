<?php
// Every address of the bank comes here: try_files names this file.
declare(strict_types=1);

require __DIR__ . '/../src/bank.php';
require __DIR__ . '/../src/token.php';
require __DIR__ . '/../src/pages.php';

$config = require __DIR__ . '/../config.php';
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$claims = Token::read($_COOKIE['token'] ?? '', $config['secret']);
header('Cache-Control: no-store');
header("Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; form-action 'self'");

function go(string $where): never
{
    header("Location: $where", true, 303);
    exit;
}

function refuse(int $status, string $why): never
{
    http_response_code($status);
    echo page('Not possible', '<p>' . text($why) . '</p><p><a href="/">Back</a></p>');
    exit;
}

/** What came with a form, or an empty text. */
function field(string $name): string
{
    return is_string($_POST[$name] ?? null) ? $_POST[$name] : '';
}

function remember(string $token, int $until): void
{
    $options = ['expires' => $until, 'path' => '/', 'httponly' => true, 'samesite' => 'Strict'];
    setcookie('token', $token, $options + ['secure' => !empty($_SERVER['HTTPS'])]);
}

switch ($_SERVER['REQUEST_METHOD'] . ' ' . $path) {
    case 'GET /':
        if ($claims !== null) {
            go('/account');
        }
        echo login_page();
        break;

    case 'POST /login':
        $customer = Bank::open($config)->customer_by_login(field('login'));
        // A password is checked in any case: the time that an answer takes does not tell which names exist.
        $is_right = password_verify(field('password'), $customer['password_hash'] ?? Bank::NOBODYS_HASH);
        if ($customer === null || !$is_right) {
            http_response_code(403);
            echo login_page('Name or password is wrong.');
            break;
        }
        $until = time() + Token::SECONDS;
        remember(Token::write((int) $customer['id'], $until, $config['secret']), $until);
        go('/account');

    case 'GET /account':
        if ($claims === null) {
            go('/');
        }
        $bank = Bank::open($config);
        $customer = $bank->customer($claims['sub']);
        if ($customer === null) {
            go('/');
        }
        $form = Token::of_form($claims, $config['secret']);
        echo account_page($customer, $bank->accounts($claims['sub']), $bank->transfers($claims['sub']), $form);
        break;

    case 'POST /transfer':
        if ($claims === null) {
            go('/');
        }
        if (!hash_equals(Token::of_form($claims, $config['secret']), field('form'))) {
            refuse(403, 'This form is not from here.');
        }
        // Digits and at most two decimals: money is counted in cents.
        if (!preg_match('/^(\d{1,9})(?:\.(\d{2}))?$/D', field('amount'), $found)) {
            refuse(400, 'An amount looks like 12.50.');
        }
        $cents = 100 * (int) $found[1] + (int) ($found[2] ?? 0);
        $why_not = Bank::open($config)->transfer(
            $claims['sub'],
            (int) field('from'),
            (int) field('to'),
            $cents,
            mb_substr(field('reason'), 0, 100)
        );
        $why_not === null ? go('/account') : refuse(409, $why_not);

    case 'POST /logout':
        remember('', 1);
        go('/');

    default:
        refuse(404, 'There is no such page.');
}
