
# Of this example. The web server answers /wiki/TITLE with index.php.
$wgArticlePath = '/wiki/$1';
$wgUsePathInfo = true;
$wgEnableUploads = true;
$wgUploadDirectory = "$IP/images";
$wgCacheDirectory = "$IP/cache";
# Parsed pages and messages are kept in the database, which all processes share.
$wgMainCacheType = CACHE_DB;
# Jobs are few here: one after the answer to every tenth page.
$wgJobRunRate = 0.1;
# Nothing is sent by mail, and nobody is asked.
$wgEnableEmail = false;
$wgPingback = false;
