CREATE TABLE galleries (
    id INT AUTO_INCREMENT PRIMARY KEY,
    title VARCHAR(80) NOT NULL
);
CREATE TABLE images (
    id INT AUTO_INCREMENT PRIMARY KEY,
    gallery INT NOT NULL REFERENCES galleries (id),
    file VARCHAR(40) NOT NULL,
    KEY (gallery)
);
