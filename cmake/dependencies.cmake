# Libraries the core is built with. Static archives are preferred, so that the product needs libc
# alone at run time.
find_path(JANSSON_INCLUDE_DIR jansson.h REQUIRED)
find_library(JANSSON_LIBRARY NAMES libjansson.a jansson REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_package(Threads REQUIRED)
# The tuner's database: of the command alone, which does without where SQLite is not installed.
find_path(SQLITE_INCLUDE_DIR sqlite3.h)
find_library(SQLITE_LIBRARY NAMES libsqlite3.a sqlite3)
if(FLASHTL_TESTS)
  find_path(CMOCKA_INCLUDE_DIR cmocka.h REQUIRED)
  find_library(CMOCKA_LIBRARY NAMES cmocka REQUIRED)
endif()
