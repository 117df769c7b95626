<?php
// Customers, accounts and some history: install.php FOLDER. Names and passwords go to people.csv there, for a load test.
declare(strict_types=1);

const CUSTOMERS = 50;
const TRANSFERS = 2000;

[, $folder] = $argv;
require "$folder/site/src/bank.php";
$config = require "$folder/site/config.php";
$database = new PDO($config['dsn'], $config['user'], $config['password'], [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
if ($database->query("SHOW TABLES LIKE 'transfers'")->fetch()) {
    exit(0);
}
$database->exec(file_get_contents(__DIR__ . '/schema.sql'));
$bank = Bank::open($config);
$people = "login,password\n";
for ($number = 1; $number <= CUSTOMERS; $number++) {
    $password = bin2hex(random_bytes(6));
    $people .= "customer$number,$password\n";
    $bank->run(
        'INSERT INTO customers (login, name, password_hash) VALUES (?, ?, ?)',
        "customer$number",
        "Customer No. $number",
        password_hash($password, PASSWORD_BCRYPT)
    );
    foreach (['Everyday', 'Savings'] as $title) {
        $bank->run(
            'INSERT INTO accounts (customer, title, cents) SELECT id, ?, ? FROM customers WHERE login = ?',
            $title,
            1_000_000,
            "customer$number"
        );
    }
}
// Their numbers are the database's: a cluster leaves some out.
$accounts = $bank->run('SELECT id, customer FROM accounts')->fetchAll();
for ($number = 0; $number < TRANSFERS; $number++) {
    [$source, $target] = [$accounts[array_rand($accounts)], $accounts[array_rand($accounts)]];
    if ($source !== $target) {
        $bank->transfer($source['customer'], $source['id'], $target['id'], random_int(100, 10_000), "Invoice $number");
    }
}
umask(077);
file_put_contents("$folder/people.csv", $people);
echo "bank: names and passwords are in $folder/people.csv\n";
