# Writes OUTPUT, a source file with the commit of the tree in SOURCE: "" where it is not known, as in an
# unpacked archive. The file is left alone where it says the same already, so that nothing is built again.
cmake_minimum_required(VERSION 3.25)
set(commit)
find_package(Git QUIET)
if(GIT_FOUND AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT_EXECUTABLE} --no-optional-locks -C ${SOURCE}
                          describe --always --abbrev=12 --exclude=* "--dirty= with changes"
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT
"namespace ringwood {
extern const char kCommit[];
const char kCommit[] = \"@commit@\";
}  // namespace ringwood
" @ONLY)
