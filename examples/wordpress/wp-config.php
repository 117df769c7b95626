define('DB_NAME', 'wordpress');
define('DB_USER', 'wordpress');
define('DB_PASSWORD', '@PASSWORD@');
// A path is a socket: the database of the example listens nowhere else.
define('DB_HOST', '@DATABASE@');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
$table_prefix = 'wp_';
define('WP_DEBUG', false);
// This WordPress is Debian's: it is updated with the packages, and calls nobody.
define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('WP_HOME', '@URL@');
define('WP_SITEURL', '@URL@');
if (!defined('ABSPATH')) {
    define('ABSPATH', __DIR__ . '/');
}
require_once ABSPATH . 'wp-settings.php';
