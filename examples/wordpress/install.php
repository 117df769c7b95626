<?php
// What WordPress's installer does in the browser: install.php FOLDER URL.
[, $folder, $url] = $argv;
$_SERVER['HTTP_HOST'] = parse_url($url, PHP_URL_HOST) . ':' . parse_url($url, PHP_URL_PORT);
define('WP_INSTALLING', true);
require $folder . '/wp-load.php';
require_once ABSPATH . 'wp-admin/includes/upgrade.php';
if (is_blog_installed()) {
    exit(0);
}
$password = wp_generate_password(16, false);
wp_install('A blog on Brisk', 'admin', 'admin@example.com', false, '', $password);
global $wp_rewrite;
$wp_rewrite->set_permalink_structure('/%year%/%monthnum%/%postname%/');
$wp_rewrite->flush_rules(false);
echo "wordpress: log in on $url/wp-login.php as admin with the password $password\n";
