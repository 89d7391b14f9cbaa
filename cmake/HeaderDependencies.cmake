# The libraries of the floors base and ops without any compiled part, for another processor than this machine's: their headers
# are the same for all. They are linked into one folder, because the rest of /usr/include belongs to this machine alone.
set(headers ${CMAKE_BINARY_DIR}/headers)
file(MAKE_DIRECTORY ${headers})
foreach(name fmt spdlog hwy xxhash.h)
  if(NOT EXISTS /usr/include/${name})
    message(FATAL_ERROR "/usr/include/${name} is missing: install the packages of scripts/packages.txt")
  endif()
  file(CREATE_LINK /usr/include/${name} ${headers}/${name} SYMBOLIC)
endforeach()

find_package(Threads REQUIRED)
foreach(target fmt::fmt spdlog::spdlog PkgConfig::hwy PkgConfig::xxhash)
  add_library(${target} INTERFACE IMPORTED)
  target_include_directories(${target} INTERFACE ${headers})
endforeach()
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
target_compile_definitions(spdlog::spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
target_compile_definitions(PkgConfig::xxhash INTERFACE XXH_INLINE_ALL)

# GoogleTest comes with its source, and names its targets itself.
add_subdirectory(/usr/src/googletest/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
