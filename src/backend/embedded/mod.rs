//! A store in this process that runs the scripts as a server does. It knows no lock.

mod server;
