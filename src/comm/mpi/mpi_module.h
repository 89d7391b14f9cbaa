// What a transport module exports. The program finds these two by name and links nothing of MPI.
#pragma once

#include "comm/transport.h"

extern "C" {

/// The digest of the headers that the module was built with: another program's module is refused.
const char* athanor_mpi_interface();

/// Starts MPI and gives the world's transport, which the caller owns; once a process. Throws kPeer with MPI's own words.
athanor::comm::Transport* athanor_mpi_start();

}  // extern "C"
