// A Transport over MPI. Built once for each MPI found, as a module that the program loads at run time.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/mpi/mpi_module.h"

namespace athanor::comm {
namespace {

std::string text_of(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) {
    return "MPI error " + std::to_string(code);
  }
  return {text.data(), static_cast<size_t>(length)};
}

/// "Open MPI v4.1.4, package: …" and "MPICH Version:\t4.0.2\n…", as "Open MPI 4.1.4" and "MPICH 4.0.2".
std::string library_name() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string name(text.data(), static_cast<size_t>(length));
  name = name.substr(0, name.find_first_of(",\n"));
  std::replace(name.begin(), name.end(), '\t', ' ');
  for (const std::string& noise : {std::string("Version:"), std::string("v")}) {
    const size_t at = name.find(" " + noise);
    if (at != std::string::npos) name.erase(at + 1, noise.size());
  }
  name.erase(
      std::unique(name.begin(), name.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
      name.end());
  return name;
}

class MpiTransport final : public Transport {
 public:
  /// MPI is up.
  MpiTransport() {
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "start");
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "start");
    check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "start");
    int* limit = nullptr;
    int given = 0;
    check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&limit), &given),
          "start");
    if (given != 0) most_tag_ = *limit;
  }

  /// Ends MPI in order when all ranks end. MPI_Finalize waits for every rank; where one is lost, or ends for reasons of its
  /// own, that would be for ever, so the ranks meet first and whoever finds itself alone leaves without it.
  ~MpiTransport() override {
    if (!failed_ && all_meet()) MPI_Finalize();
  }
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string library() const override { return library_name(); }

  Transfer send(std::span<const std::byte> bytes, int to, int tag) override {
    const size_t slot = take_slot(bytes.size(), to, tag, true);
    check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, tag, MPI_COMM_WORLD,
                    &slots_[slot].request),
          slots_[slot]);
    return handle_of(slot);
  }

  Transfer receive(std::span<std::byte> bytes, int from, int tag) override {
    const size_t slot = take_slot(bytes.size(), from, tag, false);
    check(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, from, tag,
                    MPI_COMM_WORLD, &slots_[slot].request),
          slots_[slot]);
    return handle_of(slot);
  }

  bool ended(Transfer transfer) override {
    const auto index = static_cast<size_t>(transfer & 0xFFFFFFFFu);
    require(index < slots_.size() && slots_[index].busy &&
                slots_[index].generation == static_cast<uint32_t>(transfer >> 32),
            "a transfer that is not under way was asked whether it ended");
    Slot& slot = slots_[index];
    int done = 0;
    MPI_Status status{};
    check(MPI_Test(&slot.request, &done, &status), slot);
    if (done == 0) return false;
    if (!slot.sends) {
      int count = 0;
      check(MPI_Get_count(&status, MPI_BYTE, &count), slot);
      if (static_cast<size_t>(count) != slot.bytes) {
        throw bug(what(slot) + ": " + std::to_string(count) + " bytes came");
      }
    }
    slot.busy = false;
    ++slot.generation;
    free_.push_back(index);
    return true;
  }

 private:
  struct Slot {
    MPI_Request request = MPI_REQUEST_NULL;
    uint32_t generation = 0;
    bool busy = false;
    bool sends = false;
    int peer = 0;
    size_t bytes = 0;
  };

  size_t take_slot(size_t bytes, int peer, int tag, bool sends) {
    require(bytes <= kMostBytes, "a transfer of more than kMostBytes");
    require(peer >= 0 && peer < size_, "a transfer with a rank that is not of the world");
    require(tag >= 0 && tag <= most_tag_, "a transfer's tag is out of MPI's range");
    if (free_.empty()) {
      free_.push_back(slots_.size());
      slots_.emplace_back();
    }
    const size_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    slot.busy = true;
    slot.sends = sends;
    slot.peer = peer;
    slot.bytes = bytes;
    return index;
  }

  Transfer handle_of(size_t slot) const {
    return static_cast<Transfer>(slots_[slot].generation) << 32 | slot;
  }

  std::string what(const Slot& slot) const {
    return "rank " + std::to_string(rank_) + ": " + (slot.sends ? "sending " : "receiving ") +
           std::to_string(slot.bytes) + " bytes " + (slot.sends ? "to" : "from") + " rank " +
           std::to_string(slot.peer);
  }

  static bool all_meet() {
    constexpr auto kPatience = std::chrono::seconds(1);
    const auto begin = std::chrono::steady_clock::now();
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS) return false;
    int done = 0;
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0 &&
           std::chrono::steady_clock::now() - begin < kPatience) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return done != 0;
  }

  void check(int code, const char* action) {
    if (code != MPI_SUCCESS) fail(std::string("MPI: ") + action, code);
  }
  void check(int code, const Slot& slot) {
    if (code != MPI_SUCCESS) fail(what(slot), code);
  }
  [[noreturn]] void fail(const std::string& action, int code) {
    failed_ = true;
    throw Error(ExitCode::kPeer, action + ": " + text_of(code));
  }

  int rank_ = 0;
  int size_ = 1;
  bool failed_ = false;
  int most_tag_ = 32767;  // what MPI guarantees
  std::vector<Slot> slots_;
  std::vector<size_t> free_;
};

}  // namespace
}  // namespace athanor::comm

const char* athanor_mpi_interface() { return ATHANOR_MPI_INTERFACE; }

athanor::comm::Transport* athanor_mpi_start() {
  using athanor::Error;
  using athanor::ExitCode;
  // One thread makes all calls (comm/transport.h): more would cost locks and give nothing.
  int provided = MPI_THREAD_SINGLE;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  if (code != MPI_SUCCESS) {
    throw Error(ExitCode::kPeer, "MPI does not start: " + athanor::comm::text_of(code));
  }
  if (provided < MPI_THREAD_FUNNELED) {
    throw Error(ExitCode::kPeer, "this MPI does not work in a program that has threads");
  }
  return std::make_unique<athanor::comm::MpiTransport>().release();
}
