#include "support/scratch.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace athanor::test {

ScratchFolder::ScratchFolder() {
  std::string name = (fs::temp_directory_path() / "athanor-test-XXXXXX").string();
  require(::mkdtemp(name.data()) != nullptr, "no temporary folder for a test");
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path ScratchFolder::write(const std::string& name, std::string_view content) const {
  fs::create_directories((path_ / name).parent_path());
  write_bytes(path_ / name, content);
  return path_ / name;
}

void write_bytes(const fs::path& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  require(file.good(), "a test could not write its file");
}

std::string expect_error(ExitCode code, const std::vector<std::string>& words,
                         const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& word : words) {
      EXPECT_NE(message.find(word), std::string::npos) << "\"" << word << "\" in: " << message;
    }
    return message;
  }
  ADD_FAILURE() << "nothing was refused; expected: " << (words.empty() ? "" : words.front());
  return "";
}

}  // namespace athanor::test
