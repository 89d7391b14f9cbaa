#include "comm/mpi_loader.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/mpi/mpi_module.h"

namespace athanor::comm {
namespace {

namespace fs = std::filesystem;

/// Where a module may lie: in the build tree beside the program, or above it for a test program and an installed one.
std::vector<fs::path> module_folders() {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (failed) throw usage_error("cannot tell where this program lies: " + failed.message());
  const fs::path folder = program.parent_path();
  return {folder / "lib" / "athanor", folder.parent_path() / "lib" / "athanor"};
}

fs::path find_module(const std::string& mpi) {
  const std::string name = "athanor_mpi_" + mpi + ".so";
  const std::vector<fs::path> folders = module_folders();
  for (const fs::path& folder : folders) {
    std::error_code absent;
    if (fs::exists(folder / name, absent)) return folder / name;
  }
  throw usage_error(
      fmt::format("no {} in {} or {}: build the program where this MPI is installed (Debian: {})",
                  name, folders[0].string(), folders[1].string(),
                  mpi == "mpich" ? "libmpich-dev, mpich" : "libopenmpi-dev, openmpi-bin"));
}

/// dlerror() in one line.
std::string load_failure() {
  const char* text = dlerror();
  std::string message = text != nullptr ? text : "for no reason given";
  std::replace(message.begin(), message.end(), '\n', ' ');
  return message;
}

template <class Function>
Function symbol_of(void* module, const char* name, const fs::path& path) {
  void* symbol = dlsym(module, name);
  if (symbol == nullptr) {
    throw usage_error(path.string() + " is no transport of this program: " + load_failure());
  }
  return reinterpret_cast<Function>(symbol);
}

}  // namespace

std::unique_ptr<Transport> load_transport(const Launch& launch) {
  const fs::path path = find_module(launch.mpi);
  // Global: the libraries that MPI itself loads look for its symbols. Never closed: MPI leaves threads and handlers behind.
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (module == nullptr) {
    throw usage_error(fmt::format("{} does not load: {}", path.string(), load_failure()));
  }
  const auto interface =
      symbol_of<decltype(&athanor_mpi_interface)>(module, "athanor_mpi_interface", path);
  if (std::string(interface()) != ATHANOR_MPI_INTERFACE) {
    throw usage_error(path.string() +
                      " belongs to another build of this program: install or build both together");
  }
  const auto start = symbol_of<decltype(&athanor_mpi_start)>(module, "athanor_mpi_start", path);
  std::unique_ptr<Transport> transport(start());
  require_same_world(launch, transport->library(), transport->rank(), transport->size());
  return transport;
}

}  // namespace athanor::comm
