<?php
// The pictures: uploads as they came, and thumbnails that are made when they are first asked for.
declare(strict_types=1);

final class Images
{
    public const THUMBNAIL_WIDTH = 240;
    private const BYTES_MAX = 8 << 20;
    private const PIXELS_MAX = 50_000_000;
    private const KINDS = [IMAGETYPE_JPEG => 'jpg', IMAGETYPE_PNG => 'png'];

    public function __construct(private string $folder)
    {
    }

    /** Keeps a file that was uploaded and returns its name here, or null: what it is, its content says, not its name. */
    public function take(string $file): ?string
    {
        $size = is_uploaded_file($file) && filesize($file) <= self::BYTES_MAX ? @getimagesize($file) : false;
        $kind = self::KINDS[$size[2] ?? 0] ?? null;
        if ($kind === null || $size[0] * $size[1] > self::PIXELS_MAX) {
            return null;
        }
        $name = bin2hex(random_bytes(16)) . ".$kind";
        return move_uploaded_file($file, "$this->folder/uploads/$name") ? $name : null;
    }

    /** Makes the thumbnail, keeps it where the server looks first, and sends it. */
    public function send_thumbnail(string $name): bool
    {
        $path = "$this->folder/uploads/$name";
        $picture = is_file($path) ? @imagecreatefromstring(file_get_contents($path)) : false;
        if ($picture === false) {
            return false;
        }
        $small = imagescale($picture, self::THUMBNAIL_WIDTH);
        $is_png = str_ends_with($name, '.png');
        // In one step: nobody is sent half a file.
        $new = tempnam("$this->folder/thumbs", 'new');
        $is_png ? imagepng($small, $new) : imagejpeg($small, $new, 80);
        chmod($new, 0644);
        rename($new, "$this->folder/thumbs/$name");
        header('Content-Type: ' . ($is_png ? 'image/png' : 'image/jpeg'));
        readfile("$this->folder/thumbs/$name");
        return true;
    }

    /** The colour that stands in a picture's place until it has come: its mean, computed anew for each page. */
    public function colour(string $name): string
    {
        $thumbnail = "$this->folder/thumbs/$name";
        $picture = is_file($thumbnail) ? @imagecreatefromstring(file_get_contents($thumbnail)) : false;
        return $picture === false ? '#ccc' : sprintf('#%06x', imagecolorat(imagescale($picture, 1, 1), 0, 0) & 0xffffff);
    }
}
