/// How bluetoothd does.
extension BlueZRadio {
  /// bluetoothd is asked whether it answers only while something is wanted of it.
  func lookAfterDaemon() {
    pulse?.watch(!applications.isEmpty || scanner.isWanted ? place?.owner : nil)
  }
}
