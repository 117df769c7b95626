<?php
// Every address of the gallery that is no file comes here: try_files names this file.
declare(strict_types=1);

require __DIR__ . '/../src/gallery.php';
require __DIR__ . '/../src/images.php';
require __DIR__ . '/../src/pages.php';

$config = require __DIR__ . '/../config.php';
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$images = new Images(__DIR__);

function refuse(int $status, string $why): never
{
    http_response_code($status);
    echo page('Not possible', '<p>' . text($why) . '</p><p><a href="/">Back</a></p>');
    exit;
}

/** Whether a form was sent by a page of this site: browsers say where it came from. */
function is_from_here(): bool
{
    $origin = $_SERVER['HTTP_ORIGIN'] ?? null;
    return $origin === null || parse_url($origin, PHP_URL_HOST) . ':' . parse_url($origin, PHP_URL_PORT)
        === $_SERVER['HTTP_HOST'] || parse_url($origin, PHP_URL_HOST) === $_SERVER['HTTP_HOST'];
}

if ($_SERVER['REQUEST_METHOD'] === 'POST' && $path === '/upload') {
    if (!is_from_here()) {
        refuse(403, 'This form is not from here.');
    }
    $title = mb_substr(trim(is_string($_POST['title'] ?? null) ? $_POST['title'] : ''), 0, 80);
    $files = $_FILES['images'] ?? null;
    if ($title === '' || !is_array($files['tmp_name'] ?? null)) {
        refuse(400, 'A gallery has a title and pictures.');
    }
    $stored = [];
    foreach ($files['tmp_name'] as $index => $file) {
        if ($files['error'][$index] !== UPLOAD_ERR_OK || ($image = $images->take($file)) === null) {
            refuse(400, 'Pictures are JPEG or PNG, of at most 8 MB and 50 megapixels.');
        }
        $stored[] = $image;
    }
    $id = Gallery::open($config)->add($title, $stored);
    header("Location: /gallery/$id", true, 303);
} elseif ($path === '/') {
    $gallery = Gallery::open($config);
    echo index_page($gallery->newest(), $images);
} elseif (preg_match('#^/gallery/(\d{1,9})$#D', $path, $found)) {
    $gallery = Gallery::open($config);
    $one = $gallery->one((int) $found[1]) ?? refuse(404, 'There is no such gallery.');
    echo gallery_page($one, $gallery->newest(6), $images);
} elseif (preg_match('#^/thumbs/([0-9a-f]{32}\.(?:jpg|png))$#D', $path, $found)) {
    // Asked for the first time; from now on the server finds it as a file.
    $images->send_thumbnail($found[1]) || refuse(404, 'There is no such picture.');
} else {
    refuse(404, 'There is no such page.');
}
