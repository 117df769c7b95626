<?php
// Roundcube's settings; @DIR@ is filled in by roundcube.sh. For mail of your own put your servers' names in the place of the two ports.
$secrets = require __DIR__ . '/secrets.php';
[$imap, $smtp] = explode(' ', trim(file_get_contents('@DIR@/mail/ports')));
$config = [
    'db_dsnw' => "mysql://roundcube:{$secrets['password']}@unix(@DIR@/mysql.sock)/roundcube",
    'des_key' => $secrets['key'],
    'imap_host' => "127.0.0.1:$imap",
    'smtp_host' => "127.0.0.1:$smtp",
    'smtp_user' => '',
    'smtp_pass' => '',
    'mail_domain' => 'example.org',
    'product_name' => 'Webmail on Brisk',
    'log_dir' => '@DIR@/log/',
    'temp_dir' => '@DIR@/tmp/',
    'enable_installer' => false,
    'plugins' => [],
    'skin' => 'elastic',
];
