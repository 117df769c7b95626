<?php
// The pages. Whatever was typed by anybody passes through text() on its way into one.
declare(strict_types=1);

function text(string|int $value): string
{
    return htmlspecialchars((string) $value, ENT_QUOTES | ENT_SUBSTITUTE, 'UTF-8');
}

function page(string $title, string $body): string
{
    $title = text($title);
    return <<<HTML
        <!doctype html>
        <html lang="en">
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width">
        <title>$title – a gallery</title>
        <link rel="stylesheet" href="/style.css">
        <h1>$title</h1>
        $body
        HTML;
}

/** Thumbnails that lead to the pictures. */
function pictures(array $files, Images $images): string
{
    $shown = '';
    foreach ($files as $file) {
        $name = text($file);
        $colour = $images->colour($file);
        $shown .= "<a href=\"/uploads/$name\"><img src=\"/thumbs/$name\" alt=\"\" width=\"240\" height=\"180\" "
            . "style=\"background: $colour\"></a>\n";
    }
    return "<p class=\"pictures\">$shown</p>";
}

function index_page(array $galleries, Images $images): string
{
    $shown = '';
    foreach ($galleries as $gallery) {
        $shown .= "<h2><a href=\"/gallery/{$gallery['id']}\">" . text($gallery['title']) . '</a></h2>'
            . pictures($gallery['images'], $images);
    }
    return page('Newest galleries', <<<HTML
        $shown
        <h2>A new one</h2>
        <form method="post" action="/upload" enctype="multipart/form-data">
            <label>Title <input name="title" maxlength="80" required></label>
            <label>Pictures <input name="images[]" type="file" accept="image/jpeg,image/png" multiple required></label>
            <button>Upload</button>
        </form>
        HTML);
}

function gallery_page(array $gallery, array $newest, Images $images): string
{
    $others = '';
    foreach ($newest as $other) {
        $others .= "<h3><a href=\"/gallery/{$other['id']}\">" . text($other['title']) . '</a></h3>'
            . pictures(array_slice($other['images'], 0, 2), $images);
    }
    return page($gallery['title'], pictures($gallery['images'], $images) . '<h2>Newest galleries</h2>' . $others);
}
