#include "comm/message.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "comm/keyed_hash.h"
#include "support/scratch.h"

namespace athanor::comm {
namespace {

using athanor::test::expect_error;

TEST(KeyedHash, IsSipHash24) {
  // The paper's test vector: key 00 … 0f, message 00 … 0e.
  Secret secret;
  for (size_t i = 0; i < secret.size(); ++i) secret[i] = static_cast<unsigned char>(i);
  std::string message;
  for (char i = 0; i < 15; ++i) message.push_back(i);
  EXPECT_EQ(keyed_hash(secret, message), 0xa129ca6149be45e5u);
  // And the first of its authors' table, of the empty message.
  EXPECT_EQ(keyed_hash(secret, ""), 0x726fdb47dd0e0e31u);
}

TEST(KeyedHash, SecretsDiffer) { EXPECT_NE(new_secret(), new_secret()); }

TEST(Message, NumbersAndTextsComeBack) {
  const std::string body = MessageWriter()
                               .number(-3)
                               .text(std::string_view("a\0b\n", 4))
                               .text("")
                               .number(int64_t{1} << 62)
                               .body();
  MessageReader reader(body);
  EXPECT_EQ(reader.number(), -3);
  EXPECT_EQ(reader.text(), std::string("a\0b\n", 4));
  EXPECT_EQ(reader.text(), "");
  EXPECT_EQ(reader.number(), int64_t{1} << 62);
  expect_error(ExitCode::kPeer, {"cut short"}, [&] { reader.number(); });
}

TEST(Message, LiesAboutLengthsAreRefused) {
  for (const int64_t length : {int64_t{6}, int64_t{1} << 40, int64_t{-1}}) {
    const std::string body = MessageWriter().number(length).body() + "short";
    MessageReader reader(body);
    expect_error(ExitCode::kPeer, {"cut short"}, [&] { reader.text(); });
  }
}

struct Pair {
  Pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    a = Channel(FileDescriptor(ends[0]));
    b = Channel(FileDescriptor(ends[1]));
  }
  Channel a, b;
};

TEST(Channel, LargeMessagesCrossInPiecesAndInOrder) {
  Pair pair;
  const std::string large(5'000'000, 'x');
  pair.a.send(MessageKind::kWorld, large);
  pair.a.send(MessageKind::kBeat, "");
  pair.a.send(MessageKind::kExit, "end");
  EXPECT_TRUE(pair.a.unsent());  // no socket takes so much at once
  std::vector<Message> messages;
  for (int i = 0; i < 10000 && messages.size() < 3; ++i) {
    pair.a.flush();
    pair.b.receive(messages);
  }
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0].body, large);
  EXPECT_EQ(messages[1].kind, MessageKind::kBeat);
  EXPECT_EQ(messages[2].body, "end");
  EXPECT_TRUE(pair.b.open());
}

TEST(Channel, WhatWasSentBeforeTheEndIsHeard) {
  Pair pair;
  pair.a.send(MessageKind::kFault, "last words");
  pair.a.close();
  std::vector<Message> messages;
  pair.b.receive(messages);
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0].body, "last words");
  EXPECT_FALSE(pair.b.open());
  pair.b.send(MessageKind::kBeat, "into the void");  // harmless
}

TEST(Channel, NonsenseClosesIt) {
  Pair pair;
  ASSERT_EQ(write(pair.a.fd(), "\xff\xff\xff\xff\x01garbage", 12), 12);
  std::vector<Message> messages;
  pair.b.receive(messages);
  EXPECT_TRUE(messages.empty());
  EXPECT_FALSE(pair.b.open());
}

}  // namespace
}  // namespace athanor::comm
