<?php
// JSON Web Tokens (RFC 7519), signed with HMAC-SHA-256: who is logged in is known from the cookie alone, so any number of
// application servers can answer.
declare(strict_types=1);

final class Token
{
    public const SECONDS = 3600;
    private const HEAD = ['alg' => 'HS256', 'typ' => 'JWT'];

    public static function write(int $customer, int $until, string $secret): string
    {
        $claims = ['sub' => $customer, 'exp' => $until, 'jti' => bin2hex(random_bytes(8))];
        $signed = self::encode(json_encode(self::HEAD)) . '.' . self::encode(json_encode($claims));
        return $signed . '.' . self::encode(hash_hmac('sha256', $signed, $secret, true));
    }

    /** The claims of a token that was made here and has not expired, or null. */
    public static function read(string $token, string $secret): ?array
    {
        $parts = explode('.', $token);
        if (count($parts) !== 3) {
            return null;
        }
        [$head, $claims, $signature] = $parts;
        $wanted = self::encode(hash_hmac('sha256', "$head.$claims", $secret, true));
        // The algorithm is ours whatever the head says: "none" is no algorithm.
        if (!hash_equals($wanted, $signature)) {
            return null;
        }
        $claims = json_decode(base64_decode(strtr($claims, '-_', '+/')), true);
        $is_whole = is_array($claims) && is_int($claims['sub'] ?? null) && is_int($claims['exp'] ?? null);
        return $is_whole && $claims['exp'] > time() ? $claims : null;
    }

    /** What a form of this login carries, so that other sites cannot send one. */
    public static function of_form(array $claims, string $secret): string
    {
        return hash_hmac('sha256', 'form ' . $claims['jti'], $secret);
    }

    private static function encode(string $bytes): string
    {
        return rtrim(strtr(base64_encode($bytes), '+/', '-_'), '=');
    }
}
