//! Configurations and requests of caches.
