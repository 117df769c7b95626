"""MariaDB servers with the data of an example: alone, or as a primary with replicas."""

import shutil
import subprocess

from .stage import Refused, program

# What replicates, and what looks at the servers' roles. The experiment's network has nobody else in it.
ACCOUNTS = """SET sql_log_bin = 0;
CREATE OR REPLACE USER {user}@'%' IDENTIFIED BY '{password}';
GRANT ALL ON {database}.* TO {user}@'%';
CREATE OR REPLACE USER copies@'%' IDENTIFIED BY 'copies';
GRANT REPLICATION SLAVE ON *.* TO copies@'%';
CREATE OR REPLACE USER probe@'%' IDENTIFIED BY 'probe';
GRANT REPLICA MONITOR, SLAVE MONITOR, BINLOG MONITOR, SELECT ON *.* TO probe@'%';
CREATE OR REPLACE USER lab@localhost IDENTIFIED BY 'lab';
GRANT ALL ON *.* TO lab@localhost;
"""
PORT = 3306


class Database:
    """A server on a copy of the data's files, at an address of its machine. The second and later ones are replicas."""

    def __init__(self, stage, files, config, number):
        self.stage, self.number = stage, number
        # What the last one of this number wrote is not there.
        shutil.rmtree(stage.folder / f"database{number}", ignore_errors=True)
        self.folder = stage.make(f"database{number}")
        data = self.folder / "data"
        subprocess.run(["cp", "-a", files, data], check=True)
        accounts = stage.write(f"database{number}/accounts.sql", ACCOUNTS.format(**config))
        accounts.chmod(0o600)
        self.address = stage.address
        command = [
            program("mariadbd"),
            "--no-defaults",
            f"--datadir={data}",
            f"--socket={self.socket}",
            f"--pid-file={self.folder}/pid",
            f"--tmpdir={stage.make(f'database{number}/tmp')}",
            f"--init-file={accounts}",
            f"--bind-address={self.address}",
            f"--port={PORT}",
            "--innodb-buffer-pool-size=64M",
            f"--server-id={number}",
            "--log-bin=log",
            "--gtid-strict-mode=1",
            # Nobody answers questions for names there.
            "--skip-name-resolve",
            f"--read-only={int(number > 1)}",
        ]
        self.process = stage.start(f"database{number}", command, self.socket)

    @property
    def socket(self):
        return self.folder / "sock"

    def copies(self, primary):
        """Follows the primary from the beginning of its log: both began with the same data."""
        self.say(
            f"CHANGE MASTER TO MASTER_HOST='{primary.address}', MASTER_PORT={PORT}, MASTER_USER='copies', "
            "MASTER_PASSWORD='copies', MASTER_USE_GTID=slave_pos; START SLAVE;"
        )

    def say(self, statements):
        client = [program("mariadb"), "--no-defaults", f"--socket={self.socket}", "-ulab", "-plab", "-e", statements]
        done = subprocess.run(client, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise Refused(f"MariaDB {self.number} refuses {statements!r}: {done.stderr.strip()}")
