#include "base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace athanor {
namespace {

class Files : public testing::Test {
 protected:
  Files() {
    std::string pattern = (fs::temp_directory_path() / "athanor-files-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~Files() override { fs::remove_all(folder_); }

  fs::path path(const std::string& name) const { return folder_ / name; }
  std::vector<std::string> listing() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

 private:
  fs::path folder_;
};

ExitCode code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::kDone;
}

/// Lets this process write no file beyond `bytes` while it lives: a full disk that needs no disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limited = before_;
    limited.rlim_cur = bytes;
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST_F(Files, ReadsWholeFilesOfEverySize) {
  for (const size_t size : {0, 1, 65535, 65536, 65537, 300000}) {
    std::string content(size, 'x');
    for (size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i % 251);
    std::ofstream(path("f"), std::ios::binary) << content;
    EXPECT_EQ(read_file(path("f")), content) << size;
  }
}

TEST_F(Files, ReadsAPipeToItsEnd) {
  const std::string pipe = path("pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string content(200000, 'p');
  std::thread writer([&] { std::ofstream(pipe) << content; });
  EXPECT_EQ(read_file(pipe), content);
  writer.join();
}

TEST_F(Files, ReadErrorsNameThePathAndCarryTheCallersCode) {
  EXPECT_EQ(code_of([&] { read_file(path("none")); }), ExitCode::kData);
  EXPECT_EQ(code_of([&] { read_file(path("none"), ExitCode::kUsage); }), ExitCode::kUsage);
  EXPECT_EQ(code_of([&] { read_file(path("")); }), ExitCode::kData);  // the folder itself
  try {
    read_file(path("none"));
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "read " + path("none").string() + ": No such file or directory");
  }
}

TEST_F(Files, AnAtomicWriteReplacesAndLeavesNothingBeside) {
  write_file_atomically(path("f"), "old");
  write_file_atomically(path("f"), "new");
  EXPECT_EQ(read_file(path("f")), "new");
  EXPECT_EQ(listing(), std::vector<std::string>{"f"});
}

TEST_F(Files, AnAtomicWriteFollowsALink) {
  write_file_atomically(path("f"), "old");
  fs::create_symlink("f", path("link"));
  write_file_atomically(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("f")), "new");
  EXPECT_EQ(listing().size(), 2u);
}

TEST_F(Files, AFailedAtomicWriteKeepsTheOldFile) {
  write_file_atomically(path("f"), "old");
  {
    const FileSizeLimit limit(1000);
    EXPECT_EQ(code_of([&] { write_file_atomically(path("f"), std::string(5000, 'x')); }),
              ExitCode::kResources);
  }
  EXPECT_EQ(read_file(path("f")), "old");
  EXPECT_EQ(listing(), std::vector<std::string>{"f"});
  fs::create_directory(path("d"));
  EXPECT_EQ(code_of([&] { write_file_atomically(path("d"), "x", ExitCode::kData); }),
            ExitCode::kData);
  EXPECT_EQ(code_of([&] { write_file_atomically(path("none/f"), "x"); }), ExitCode::kUsage);
}

// A pipe in a folder of ours stands for every file that is no regular one: /dev/stdout, /dev/null.
TEST_F(Files, PipesAreWrittenToAndNeverReplacedOrRemoved) {
  const fs::path pipe = path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const FileDescriptor kept(open(pipe.c_str(), O_RDWR | O_CLOEXEC));  // holds what is written
  write_file_atomically(pipe, "through the pipe");
  ASSERT_TRUE(fs::is_fifo(pipe));
  char received[32];
  EXPECT_EQ(read(kept.get(), received, sizeof received), 16);
  EXPECT_EQ(std::string(received, 16), "through the pipe");

  {
    FileWriter(pipe).write("half", 4);
  }
  EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST_F(Files, AWriterCountsAndKeepsWhatItClosed) {
  FileWriter writer(path("f"));
  writer.write("abc", 3);
  writer.write("", 0);
  writer.write("de", 2);
  EXPECT_EQ(writer.offset(), 5U);
  writer.close();
  EXPECT_EQ(read_file(path("f")), "abcde");
}

TEST_F(Files, AWriterThatNeverClosedRemovesItsFile) {
  {
    FileWriter(path("f")).write("half", 4);
  }
  EXPECT_TRUE(listing().empty());
}

TEST_F(Files, AFullDiskIsNamedByTheWriter) {
  const FileSizeLimit limit(10);
  FileWriter writer(path("f"));
  EXPECT_EQ(code_of([&] { writer.write("0123456789abcdef", 16); }), ExitCode::kResources);
}

TEST_F(Files, ALineLogAppendsWholeLines) {
  LineLog(path("log")).append("one");
  LineLog log(path("log"));
  log.append("two");
  log.append("");
  log.sync();
  EXPECT_EQ(read_file(path("log")), "one\ntwo\n\n");
}

TEST_F(Files, ALineLogNeverLeavesHalfALine) {
  LineLog log(path("log"));
  log.append("one");
  {
    const FileSizeLimit limit(10);
    EXPECT_EQ(code_of([&] { log.append("a line that does not fit"); }), ExitCode::kResources);
  }
  EXPECT_EQ(read_file(path("log")), "one\n");
  log.append("two");
  EXPECT_EQ(read_file(path("log")), "one\ntwo\n");
}

TEST_F(Files, ALineLogStartsOnALineOfItsOwnAfterACrash) {
  std::ofstream(path("log")) << "one\n{\"half";
  LineLog(path("log")).append("two");
  EXPECT_EQ(read_file(path("log")), "one\n{\"half\ntwo\n");
}

TEST_F(Files, MakesFoldersAndSaysWhyNot) {
  make_directories(path("a/b/c"));
  make_directories(path("a/b/c"));
  EXPECT_TRUE(fs::is_directory(path("a/b/c")));
  sync_directory(path("a/b/c"));
  write_file_atomically(path("file"), "");
  EXPECT_EQ(code_of([&] { make_directories(path("file")); }), ExitCode::kUsage);
  EXPECT_EQ(code_of([&] { make_directories(path("file/below")); }), ExitCode::kUsage);
  EXPECT_EQ(code_of([&] { sync_directory(path("none")); }), ExitCode::kUsage);
}

TEST_F(Files, RenamingReplacesAndSaysWhyNot) {
  write_file_atomically(path("a"), "new");
  write_file_atomically(path("b"), "old");
  rename_file(path("a"), path("b"));
  EXPECT_EQ(read_file(path("b")), "new");
  EXPECT_FALSE(fs::exists(path("a")));
  EXPECT_EQ(code_of([&] { rename_file(path("a"), path("b"), ExitCode::kData); }), ExitCode::kData);
  EXPECT_EQ(read_file(path("b")), "new");
}

TEST_F(Files, APlainNameStaysInItsFolder) {
  for (const char* name : {"a", "...", ".hidden", "model-00001-of-00002.safetensors"}) {
    EXPECT_TRUE(is_plain_file_name(name)) << name;
  }
  for (const char* name : {"", ".", "..", "a/b", "/", "a\\b"}) {
    EXPECT_FALSE(is_plain_file_name(name)) << name;
  }
  EXPECT_FALSE(is_plain_file_name(std::string_view("a\0b", 3)));
  EXPECT_TRUE(is_plain_file_name(std::string(255, 'a')));
  EXPECT_FALSE(is_plain_file_name(std::string(256, 'a')));
}

TEST_F(Files, ALockIsHeldUntilItsOwnerIsGone) {
  {
    const FileLock lock(path("lock"), "in use");
    try {
      const FileLock second(path("lock"), "the run is in use");
      FAIL() << "locked twice";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_STREQ(error.what(), "the run is in use");
    }
  }
  EXPECT_NO_THROW(FileLock(path("lock"), "in use"));
  EXPECT_EQ(code_of([&] { FileLock(path("none/lock"), "in use"); }), ExitCode::kUsage);
}

TEST_F(Files, ADescriptorClosesOnceAndMoves) {
  const int fd = open("/dev/null", O_RDONLY);
  FileDescriptor first(fd);
  FileDescriptor second(std::move(first));
  EXPECT_TRUE(second.valid());
  first = std::move(second);
  EXPECT_EQ(first.get(), fd);
  EXPECT_NE(fcntl(fd, F_GETFD), -1);
  first = FileDescriptor();
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

}  // namespace
}  // namespace athanor
