# The commit that --version prints: asked of git when CMake configures, "unknown" without git or outside a checkout.
set(ATHANOR_COMMIT unknown)
find_package(Git QUIET)
if(GIT_FOUND AND EXISTS ${CMAKE_SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${CMAKE_SOURCE_DIR} rev-parse --short=12 HEAD
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(ATHANOR_COMMIT ${commit})
    # A new commit configures again, so that the text does not go stale.
    execute_process(COMMAND ${GIT_EXECUTABLE} -C ${CMAKE_SOURCE_DIR} rev-parse --path-format=absolute --git-path logs/HEAD
                    OUTPUT_VARIABLE log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(log AND EXISTS ${log})
      set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${log})
    endif()
  endif()
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/athanor_version.h.in ${CMAKE_BINARY_DIR}/generated/athanor_version.h @ONLY)
target_include_directories(athanor_cli PRIVATE ${CMAKE_BINARY_DIR}/generated)
