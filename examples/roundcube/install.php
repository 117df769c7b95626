<?php
// Roundcube's tables, and what its configuration reads: install.php FOLDER DATABASE-PASSWORD KEY
[, $dir, $password, $key] = $argv;
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
$database = new mysqli(null, 'roundcube', $password, 'roundcube', 0, "$dir/mysql.sock");
$database->multi_query(file_get_contents("$dir/site/SQL/mysql.initial.sql"));
while ($database->next_result());
file_put_contents("$dir/site/config/secrets.php", '<?php return ' . var_export(['password' => $password, 'key' => $key], true) . ';');
chmod("$dir/site/config/secrets.php", 0600);
