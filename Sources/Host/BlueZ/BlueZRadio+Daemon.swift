import Journal

/// Supervision of bluetoothd: whether it answers, and which options it was started with.
extension BlueZRadio {
  /// Watches whether bluetoothd answers, while an application is registered or a scan is wanted.
  func lookAfterDaemon() {
    pulse?.watch(!applications.isEmpty || scanner.isWanted ? place?.owner : nil)
  }

  /// Reads the command line of the running bluetoothd, once for each bluetoothd: it cannot change while the process
  /// runs.
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
