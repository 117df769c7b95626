<?php
// A dozen galleries of five pictures, which are drawn here: install.php FOLDER.
declare(strict_types=1);

const GALLERIES = 12;
const PICTURES = 5;

[, $folder] = $argv;
require "$folder/site/src/gallery.php";
$config = require "$folder/site/config.php";
$database = new PDO($config['dsn'], $config['user'], $config['password'], [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
if ($database->query("SHOW TABLES LIKE 'images'")->fetch()) {
    exit(0);
}
$database->exec(file_get_contents(__DIR__ . '/schema.sql'));
$gallery = Gallery::open($config);
for ($number = 1; $number <= GALLERIES; $number++) {
    $files = [];
    for ($picture = 0; $picture < PICTURES; $picture++) {
        $canvas = imagecreatetruecolor(1600, 1200);
        for ($shape = 0; $shape < 400; $shape++) {
            $colour = imagecolorallocatealpha($canvas, random_int(0, 255), random_int(0, 255), random_int(0, 255), 60);
            imagefilledellipse($canvas, random_int(0, 1600), random_int(0, 1200), random_int(20, 500), random_int(20, 500), $colour);
        }
        $files[] = $name = bin2hex(random_bytes(16)) . '.jpg';
        imagejpeg($canvas, "$folder/site/public/uploads/$name", 85);
    }
    $gallery->add("Gallery No. $number", $files);
}
