#include "support/memory_world.h"

#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "base/random.h"

namespace athanor::test {
namespace {

/// Messages on their way, by sender, receiver and tag.
struct Mail {
  std::mutex mutex;
  std::map<std::tuple<int, int, int>, std::deque<std::vector<std::byte>>> messages;
};

class MemoryTransport final : public comm::Transport {
 public:
  MemoryTransport(Mail& mail, int rank, int size, uint64_t seed)
      : mail_(mail), rank_(rank), size_(size), random_(seed, static_cast<uint64_t>(rank)) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string library() const override { return "threads of a test"; }

  Transfer send(std::span<const std::byte> bytes, int to, int tag) override {
    const std::lock_guard lock(mail_.mutex);
    mail_.messages[{rank_, to, tag}].emplace_back(bytes.begin(), bytes.end());
    return open({.receives = false, .from = 0, .tag = 0, .into = {}});
  }
  Transfer receive(std::span<std::byte> bytes, int from, int tag) override {
    return open({.receives = true, .from = from, .tag = tag, .into = bytes});
  }
  bool ended(Transfer transfer) override {
    if (random_.uniform() < 0.3) return false;
    const Open& open = open_.at(transfer);
    if (open.receives) {
      // Receives of one sender and tag are served in the order in which they were posted.
      for (const auto& [other, earlier] : open_) {
        if (other < transfer && earlier.receives && earlier.from == open.from &&
            earlier.tag == open.tag) {
          return false;
        }
      }
      const std::lock_guard lock(mail_.mutex);
      auto& waiting = mail_.messages[{open.from, rank_, open.tag}];
      if (waiting.empty()) return false;
      require(waiting.front().size() == open.into.size(), "a message of another size");
      std::ranges::copy(waiting.front(), open.into.begin());
      waiting.pop_front();
    }
    open_.erase(transfer);
    return true;
  }

 private:
  struct Open {
    bool receives;
    int from;
    int tag;
    std::span<std::byte> into;
  };
  Transfer open(const Open& transfer) {
    open_.emplace(++last_, transfer);
    return last_;
  }

  Mail& mail_;
  int rank_;
  int size_;
  RandomStream random_;
  std::map<Transfer, Open> open_;
  Transfer last_ = 0;
};

}  // namespace

void run_ranks(int size, const comm::CommunicatorOptions& options,
               const std::function<void(comm::Communicator&)>& rank, uint64_t seed) {
  Mail mail;
  std::vector<std::exception_ptr> failures(static_cast<size_t>(size));
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < size; ++r) {
      threads.emplace_back([&, r] {
        try {
          comm::Communicator communicator(
              [&] { return std::make_unique<MemoryTransport>(mail, r, size, seed); }, options);
          rank(communicator);
        } catch (...) {
          failures[static_cast<size_t>(r)] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace athanor::test
