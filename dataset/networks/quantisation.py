INT8="int8"
