<?php
// The pages. Whatever was typed by anybody passes through text() on its way into one.
declare(strict_types=1);

function text(string|int $value): string
{
    return htmlspecialchars((string) $value, ENT_QUOTES | ENT_SUBSTITUTE, 'UTF-8');
}

function money(int $cents): string
{
    return sprintf('%s%d.%02d', $cents < 0 ? '−' : '', intdiv(abs($cents), 100), abs($cents) % 100);
}

function page(string $title, string $body): string
{
    $title = text($title);
    return <<<HTML
        <!doctype html>
        <html lang="en">
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width">
        <title>$title – the bank</title>
        <style>
            body { font: 1rem/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem }
            table { border-collapse: collapse; width: 100% }
            td, th { padding: .25rem .5rem; text-align: left; border-bottom: 1px solid #ccc }
            td.money { text-align: right; font-variant-numeric: tabular-nums }
            label { display: block; margin: .5rem 0 }
        </style>
        <h1>$title</h1>
        $body
        HTML;
}

function login_page(string $complaint = ''): string
{
    $complaint = $complaint === '' ? '' : '<p role="alert">' . text($complaint) . '</p>';
    return page('Log in', <<<HTML
        $complaint
        <form method="post" action="/login">
            <label>Name <input name="login" autocomplete="username" required></label>
            <label>Password <input name="password" type="password" autocomplete="current-password" required></label>
            <button>Log in</button>
        </form>
        HTML);
}

function account_page(array $customer, array $accounts, array $transfers, string $form): string
{
    $owned = $options = $moved = '';
    foreach ($accounts as $account) {
        [$id, $title] = [text($account['id']), text($account['title'])];
        $owned .= "<tr><td>$id<td>$title<td class=\"money\">" . money($account['cents']);
        $options .= "<option value=\"$id\">$title</option>";
    }
    foreach ($transfers as $transfer) {
        $amount = money($transfer['is_out'] ? -$transfer['cents'] : $transfer['cents']);
        $between = text($transfer['source']) . ' → ' . text($transfer['target']);
        $moved .= '<tr><td>' . text($transfer['made_at']) . "<td>$between<td>" . text($transfer['reason'])
            . "<td class=\"money\">$amount";
    }
    return page('Accounts of ' . $customer['name'], <<<HTML
        <table><tr><th>Number<th>Account<th>Balance$owned</table>
        <h2>Latest transfers</h2>
        <table><tr><th>When<th>Accounts<th>Reason<th>Amount$moved</table>
        <h2>Transfer</h2>
        <form method="post" action="/transfer">
            <input type="hidden" name="form" value="$form">
            <label>From <select name="from">$options</select></label>
            <label>To account <input name="to" inputmode="numeric" required></label>
            <label>Amount <input name="amount" inputmode="decimal" placeholder="12.50" required></label>
            <label>Reason <input name="reason" maxlength="100"></label>
            <button>Transfer</button>
        </form>
        <form method="post" action="/logout"><button>Log out</button></form>
        HTML);
}
