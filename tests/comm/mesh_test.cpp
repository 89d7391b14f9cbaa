// The parents' connections, in one process: every Mesh is driven by the same loop.
#include "comm/mesh.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>

#include "comm/lab.h"

namespace athanor::comm {
namespace {

using test::eventually;

/// A stranger's connection to a port of this host.
FileDescriptor connect_to(uint16_t port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return FileDescriptor();
  }
  return socket;
}

class Parents {
 public:
  explicit Parents(int count) : secret_(new_secret()) {
    for (int i = 0; i < count; ++i) meshes.push_back(std::make_unique<Mesh>());
  }
  std::vector<std::string> addresses() const {
    std::vector<std::string> all;
    for (const auto& mesh : meshes) all.push_back(mesh->address());
    return all;
  }
  void begin(int rank) { at(rank).meet(rank, secret_, addresses()); }
  void begin_all() {
    for (int rank = 0; rank < static_cast<int>(meshes.size()); ++rank) begin(rank);
  }
  Mesh& at(int rank) { return *meshes[static_cast<size_t>(rank)]; }

  /// One round of those that live; what they saw is kept.
  void round() {
    for (size_t rank = 0; rank < meshes.size(); ++rank) {
      if (!meshes[rank]) continue;
      std::vector<pollfd> polled;
      meshes[rank]->watch(polled);
      poll(polled.data(), polled.size(), 0);
      for (PeerEvent& event : meshes[rank]->work(polled)) {
        events[static_cast<int>(rank)].push_back(std::move(event));
      }
    }
  }
  bool all_met() {
    round();
    return std::ranges::all_of(meshes, [](const auto& mesh) { return mesh->met(); });
  }

  std::vector<std::unique_ptr<Mesh>> meshes;
  std::map<int, std::vector<PeerEvent>> events;

 private:
  Secret secret_;
};

TEST(Mesh, EveryPairIsConnectedAndPortsAreClosed) {
  Parents parents(5);
  parents.begin_all();
  ASSERT_TRUE(eventually([&] { return parents.all_met(); }));
  for (int a = 0; a < 5; ++a) {
    EXPECT_EQ(parents.at(a).take_newly_connected().size(), 4u);
    for (int b = 0; b < 5; ++b) EXPECT_EQ(parents.at(a).connected(b), a != b) << a << b;
    EXPECT_FALSE(connect_to(parents.at(a).port()).valid()) << "the port still listens";
    EXPECT_EQ(parents.at(a).hosts().size(), 5u);
  }
  parents.at(3).send(1, MessageKind::kBeat, "from three");
  parents.at(0).send_all(MessageKind::kFault, "to all");
  ASSERT_TRUE(eventually([&] {
    parents.round();
    return parents.events[1].size() == 2 && parents.events[4].size() == 1;
  }));
  EXPECT_EQ(parents.events[4][0].rank, 0);
  EXPECT_EQ(parents.events[4][0].message->body, "to all");
}

TEST(Mesh, EndOfOneIsSeenByAllOthers) {
  Parents parents(4);
  parents.begin_all();
  ASSERT_TRUE(eventually([&] { return parents.all_met(); }));
  parents.at(2).send_all(MessageKind::kExit, "bye");
  parents.meshes[2].reset();
  ASSERT_TRUE(eventually([&] {
    parents.round();
    return parents.events[0].size() == 2 && parents.events[1].size() == 2 &&
           parents.events[3].size() == 2;
  }));
  for (const int rank : {0, 1, 3}) {
    EXPECT_EQ(parents.events[rank][0].message->body, "bye");
    EXPECT_FALSE(parents.events[rank][1].message.has_value());
    EXPECT_EQ(parents.events[rank][1].rank, 2);
    EXPECT_FALSE(parents.at(rank).connected(2));
  }
}

TEST(Mesh, RanksMayComeInAnyOrder) {
  Parents parents(3);
  parents.begin(2);
  for (int i = 0; i < 50; ++i) parents.round();
  parents.begin(0);
  for (int i = 0; i < 50; ++i) parents.round();
  parents.begin(1);
  ASSERT_TRUE(eventually([&] { return parents.all_met(); }));
}

TEST(Mesh, StrangersCostNothing) {
  Parents parents(3);
  std::vector<FileDescriptor> strangers;
  const auto knock = [&](const std::string& words) {
    for (int rank = 0; rank < 3; ++rank) {
      strangers.push_back(connect_to(parents.at(rank).port()));
      ASSERT_TRUE(strangers.back().valid());
      if (!words.empty()) {
        ASSERT_GT(send(strangers.back().get(), words.data(), words.size(), MSG_NOSIGNAL), 0);
      }
    }
  };
  // Some from before the secret is known: silent ones, a web browser, a flood, the right mark with wrong proof, half of it.
  knock("");
  knock("GET / HTTP/1.1\r\n\r\n");
  knock(std::string(20000, '\0'));
  knock("athanor1" + std::string(32, 'a'));
  knock("athan");
  for (int i = 0; i < 80; ++i) knock("");
  parents.begin_all();
  knock("athanor1" + std::string(32, 'b'));
  ASSERT_TRUE(eventually([&] { return parents.all_met(); }));
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(parents.events[rank].empty());
}

TEST(Mesh, ParentOfAnotherLaunchIsNotLetIn) {
  Parents ours(2);
  Parents theirs(2);  // another secret
  ours.begin(0);
  theirs.at(1).meet(1, new_secret(), ours.addresses());
  for (int i = 0; i < 100; ++i) {
    ours.round();
    theirs.round();
    usleep(1000);
  }
  EXPECT_FALSE(ours.at(0).connected(1));
  EXPECT_FALSE(theirs.at(1).connected(0));
  ours.begin(1);
  ASSERT_TRUE(eventually([&] { return ours.all_met(); }));
}

TEST(Mesh, WorldOfMoreRanksThanFilesIsRefused) {
  Mesh mesh;
  const std::vector<std::string> many(2'000'000, mesh.address());
  athanor::test::expect_error(ExitCode::kUsage, {"2000000 ranks", "ulimit -n"},
                              [&] { mesh.meet(0, new_secret(), many); });
}

}  // namespace
}  // namespace athanor::comm
