import Journal

/// How bluetoothd does, and how it was started.
extension BlueZRadio {
  /// bluetoothd is asked whether it answers only while something is wanted of it.
  func lookAfterDaemon() {
    pulse?.watch(!applications.isEmpty || scanner.isWanted ? place?.owner : nil)
  }

  /// Each bluetoothd is asked for once: what it was started with stays.
  func askForCommandLine() {
    guard daemon.owner != askedOwner else { return }
    (askedOwner, commandLine) = (daemon.owner, nil)
    guard let owner = daemon.owner else { return }
    bus.askForDaemonCommandLine { [weak self] commandLine in
      guard let self, daemon.owner == owner else { return }
      self.commandLine = commandLine
      if commandLine?.loads(DaemonCommandLine.battery) == true {
        log.warning("\(BlueZLimit.readsBattery)", id: .pairingAsked)
      }
      statusMayHaveChanged()
    }
  }
}
