//! Heads of CGI-like protocols (FastCGI, SCGI, uwsgi): fields without a status line, `Status` among them.
