#!/bin/sh
# Installs what the benchmarks compare with (Debian and its kin). Run as root.
set -eu
apt-get update
apt-get install -y nginx-light h2o nghttp2-client wrk
