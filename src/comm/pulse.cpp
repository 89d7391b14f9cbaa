#include "comm/pulse.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <new>

#include "base/error.h"

namespace athanor::comm {
namespace {

constexpr size_t kPageBytes = 4096;

}  // namespace

/// Counters are zero in fresh memory, and that is their first value: no constructor runs.
struct Pulse::Page {
  std::atomic<uint64_t> place;  ///< step << 8 | phase: read and written as one
  std::atomic<uint64_t> progress;
  std::atomic<uint64_t> polls;
  std::atomic<int32_t> waits_for;  ///< minus PulseReading::kNobody, so that 0 is nobody
};

std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, kPhases> kNames = {
      "start",  "data",     "forward", "backward", "reduce", "optimizer",
      "gather", "validate", "save",    "load",     "end"};
  const auto index = static_cast<size_t>(phase);
  return index < kNames.size() ? kNames[index] : "unknown phase";
}

std::string PulseReading::place() const {
  const std::string name(name_of(phase));
  if (step == 0) return "in the " + name;
  return "in the " + name + " of step " + std::to_string(step);
}

Pulse::Pulse() {
  void* page =
      mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw system_error(errno, "map", "a page", ExitCode::kResources);
  page_ = static_cast<Page*>(page);
}

Pulse::Pulse(int fd) {
  static_assert(sizeof(Page) <= kPageBytes && std::atomic<uint64_t>::is_always_lock_free);
  void* page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED)
    throw system_error(errno, "map", "the pulse's page", ExitCode::kResources);
  page_ = static_cast<Page*>(page);
}

Pulse::~Pulse() { munmap(page_, kPageBytes); }

int Pulse::new_page() {
  const int fd = memfd_create("athanor-pulse", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, kPageBytes) != 0) {
    throw system_error(errno, "make", "the pulse's page", ExitCode::kResources);
  }
  return fd;
}

void Pulse::enter(Phase phase, int64_t step) {
  page_->place.store(static_cast<uint64_t>(step) << 8 | static_cast<uint64_t>(phase),
                     std::memory_order_relaxed);
  beat();
}

void Pulse::beat() {
  page_->waits_for.store(0, std::memory_order_relaxed);
  page_->progress.fetch_add(1, std::memory_order_relaxed);
}

void Pulse::waiting(int rank) {
  page_->waits_for.store(rank - PulseReading::kNobody, std::memory_order_relaxed);
  page_->polls.fetch_add(1, std::memory_order_relaxed);
}

PulseReading Pulse::read() const {
  PulseReading reading;
  const uint64_t place = page_->place.load(std::memory_order_relaxed);
  reading.step = static_cast<int64_t>(place >> 8);
  reading.phase = static_cast<Phase>(place & 0xFF);
  reading.progress = page_->progress.load(std::memory_order_relaxed);
  reading.polls = page_->polls.load(std::memory_order_relaxed);
  reading.waits_for = page_->waits_for.load(std::memory_order_relaxed) + PulseReading::kNobody;
  return reading;
}

}  // namespace athanor::comm
