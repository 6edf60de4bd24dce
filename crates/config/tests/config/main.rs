//! Configuration files, Corefiles and flags: read, checked and written.

mod anything;
mod corefile;
mod kubeadm;
mod reading;
mod writing;
