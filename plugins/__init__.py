"""The built-in plugins. Each is a folder of its own and enters through the same door as yours."""
