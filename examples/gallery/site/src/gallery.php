<?php
// What the gallery knows of its pictures, in MariaDB. The pictures are files: see images.php.
declare(strict_types=1);

final class Gallery
{
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

    /** The newest galleries with their pictures. */
    public function newest(int $count = 12): array
    {
        $galleries = $this->rows('SELECT id, title FROM galleries ORDER BY id DESC LIMIT ?', $count);
        return array_map(fn ($gallery) => $gallery + ['images' => $this->images($gallery['id'])], $galleries);
    }

    public function one(int $id): ?array
    {
        $found = $this->rows('SELECT id, title FROM galleries WHERE id = ?', $id)[0] ?? null;
        return $found === null ? null : $found + ['images' => $this->images($id)];
    }

    /** @param string[] $files names of stored pictures */
    public function add(string $title, array $files): int
    {
        $this->database->beginTransaction();
        $this->run('INSERT INTO galleries (title) VALUES (?)', $title);
        $id = (int) $this->database->lastInsertId();
        foreach ($files as $file) {
            $this->run('INSERT INTO images (gallery, file) VALUES (?, ?)', $id, $file);
        }
        $this->database->commit();
        return $id;
    }

    private function images(int $gallery): array
    {
        return array_column($this->rows('SELECT file FROM images WHERE gallery = ? ORDER BY id', $gallery), 'file');
    }

    private function run(string $statement, int|string ...$values): PDOStatement
    {
        $prepared = $this->database->prepare($statement);
        foreach ($values as $index => $value) {
            $prepared->bindValue($index + 1, $value, is_int($value) ? PDO::PARAM_INT : PDO::PARAM_STR);
        }
        $prepared->execute();
        return $prepared;
    }

    private function rows(string $statement, int|string ...$values): array
    {
        return $this->run($statement, ...$values)->fetchAll();
    }
}
