# The page of `flashtl view` in a real browser, where one is installed.
add_test(NAME view_browser COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/browser.py $<TARGET_FILE:flashtl>)
set_tests_properties(view_browser PROPERTIES LABELS "cli;slow;script" SKIP_RETURN_CODE 77 TIMEOUT 900)
