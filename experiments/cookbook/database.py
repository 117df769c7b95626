"""A MariaDB of a recipe's own, with a table of orders, and a page that asks it."""

import subprocess

from cookbook.scenes import Site
from lab import php
from lab.stage import program

ORDERS = 400_000
# The rows are wide: all of them take about 150 MB, of which one query needs a few pages anywhere.
MAKE = f"""CREATE DATABASE shop;
USE shop;
CREATE TABLE orders (id INT PRIMARY KEY, customer INT NOT NULL, total INT NOT NULL, note CHAR(250) NOT NULL) ENGINE=InnoDB;
INSERT INTO orders SELECT seq, seq * 7919 % 20000, seq % 1000, REPEAT(MD5(seq), 7) FROM seq_1_to_{ORDERS};
CREATE USER shop@localhost IDENTIFIED BY 'shop';
GRANT SELECT ON shop.* TO shop@localhost;
"""
KINDS = {
    "small pool": ("8M", "SELECT SUM(total) AS sum FROM orders WHERE id IN ($ids)", False),
    "large pool": ("512M", "SELECT SUM(total) AS sum FROM orders WHERE id IN ($ids)", False),
    "no index": ("512M", "SELECT SUM(total) AS sum FROM orders WHERE customer = $customer", False),
    "index": ("512M", "SELECT SUM(total) AS sum FROM orders WHERE customer = $customer", True),
}
SCRIPT = """<?php
$database = new mysqli('localhost', 'shop', 'shop', 'shop', 0, '@SOCKET@');
$customer = random_int(0, 19999);
$ids = implode(',', array_map(fn () => random_int(1, @ORDERS@), range(1, 20)));
echo $database->query("@QUERY@")->fetch_assoc()['sum'] >= 0 ? 'sum' : 'none';
"""


def site(pool, kind):
    size, query, has_index = KINDS[kind]

    def before(stage):
        data = made(stage, has_index)
        socket = stage.folder / "shop.sock"
        script = SCRIPT.replace("@SOCKET@", str(socket)).replace("@QUERY@", query).replace("@ORDERS@", str(ORDERS))
        stage.write("www/orders.php", script)
        process = stage.start("shop", [*server(data, socket), f"--innodb-buffer-pool-size={size}"], socket)
        warm(stage, socket)
        return {"database": process.pid}

    return Site(pool=pool, path="/orders.php", before=before, prime=20)


def warm(stage, socket):
    """Reads the table once: what the buffer pool has room for stays there."""
    text = SCRIPT.replace("@SOCKET@", str(socket)).replace("@ORDERS@", str(ORDERS))
    script = stage.write("warm.php", text.replace("@QUERY@", "SELECT SUM(LENGTH(note)) AS sum FROM orders"))
    command = [program("php"), "-n", "-c", php.ini(stage, "warm") / "php.ini", script]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


def server(data, socket):
    return [
        program("mariadbd"),
        "--no-defaults",
        f"--datadir={data}",
        "--skip-networking",
        f"--socket={socket}",
        f"--pid-file={data}/pid",
        "--skip-log-bin",
        # As where the data is larger than the memory: what is not in the buffer pool comes from the disk.
        "--innodb-flush-method=O_DIRECT",
        "--innodb-buffer-pool-load-at-startup=0",
    ]


def made(stage, has_index):
    """The folder of the data, made once, with an index over customers or without."""
    data = stage.folder / ("shop-index" if has_index else "shop")
    if data.exists():
        return data
    stage.make(data.name)
    share = "/usr/share/mysql"
    parts = ["mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql"]
    text = "CREATE DATABASE mysql;\nUSE mysql;\n" + "".join(open(f"{share}/{name}").read() for name in parts)
    text += "FLUSH PRIVILEGES;\n" + MAKE + ("CREATE INDEX customer ON orders (customer);\n" if has_index else "")
    command = [*server(data, data / "bootstrap.sock"), "--bootstrap", "--innodb-buffer-pool-size=512M"]
    done = subprocess.run(
        [str(word) for word in command], input=text, text=True, capture_output=True, check=False, **stage.identity()
    )
    if done.returncode != 0:
        raise RuntimeError(f"the shop's database cannot be made:\n{done.stderr[-2000:]}")
    return data
