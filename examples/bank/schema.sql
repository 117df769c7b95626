CREATE TABLE customers (
    id INT AUTO_INCREMENT PRIMARY KEY,
    login VARCHAR(40) NOT NULL UNIQUE,
    name VARCHAR(80) NOT NULL,
    password_hash VARCHAR(255) NOT NULL
);
CREATE TABLE accounts (
    id INT AUTO_INCREMENT PRIMARY KEY,
    customer INT NOT NULL REFERENCES customers (id),
    title VARCHAR(40) NOT NULL,
    cents BIGINT NOT NULL CHECK (cents >= 0),
    KEY (customer)
);
CREATE TABLE transfers (
    id INT AUTO_INCREMENT PRIMARY KEY,
    source INT NOT NULL REFERENCES accounts (id),
    target INT NOT NULL REFERENCES accounts (id),
    cents BIGINT NOT NULL,
    reason VARCHAR(100) NOT NULL,
    made_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    KEY (source),
    KEY (target)
);
