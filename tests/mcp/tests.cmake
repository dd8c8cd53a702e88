# The tool server: message by message, and through the protocol's official SDK (77: it is not here).
add_test(NAME mcp COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_mcp.py
                          $<TARGET_FILE:flashtl>)
set_tests_properties(mcp PROPERTIES LABELS cli)
add_test(NAME mcp_sdk COMMAND ${FLASHTL_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/sdk_client.py
                              $<TARGET_FILE:flashtl>)
set_tests_properties(mcp_sdk PROPERTIES LABELS cli SKIP_RETURN_CODE 77)
