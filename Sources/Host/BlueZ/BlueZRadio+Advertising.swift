import Loop
import Radio

/// Advertisements: the kernel sends them exactly as encoded if the management socket is open; otherwise bluetoothd
/// sends them as exactly as it can.
extension BlueZRadio {
  public var advertisingSlots: Int { advertising.slots }

  public var foreignAdvertisements: Int { advertising.foreign }

  public func advertise(_ advertisement: Advertisement?, in slot: Int) {
    advertising.show(advertisement, in: slot)
    statusMayHaveChanged()
  }

  /// Restarts the advertisements after a peer has connected: the controller ends the advertisement, and the kernel does
  /// not restart it while the link lasts. Facts: bluez.md section 5.
  func renewAdvertisements() {
    advertising.renew()
  }

  /// Reports a changed number of slots at the end of this loop iteration, so that the delegate is not called from
  /// within its own call.
  func slotsMayHaveChanged() {
    guard !isSlotCountDue else { return }
    isSlotCountDue = true
    EventLoop.shared.soon { [weak self] in
      guard let self else { return }
      isSlotCountDue = false
      guard advertisingSlots != toldSlots else { return }
      toldSlots = advertisingSlots
      delegate?.advertisingSlotsChanged()
    }
  }

  /// Reports at the end of this loop iteration, for the same reason.
  private func onAirChanged(_ advertisement: Advertisement?, _ slot: Int) {
    EventLoop.shared.soon { [weak self] in self?.delegate?.onAir(advertisement, in: slot) }
  }

  var shortfallWords: ShortfallWords {
    var reason: String?
    if case .shut(let why) = doors.management { reason = why }
    return ShortfallWords(version: version, management: reason, isDegradable: isDegradable)
  }

  func makeAdvertising() -> any AdvertisingWay {
    if let socket = doors.management.way {
      return ManagedAdvertising(
        socket, scheduler: scheduler,
        commands: { [weak self] in
          guard let self, let adapter = place.flatMap({ daemon.adapters[$0.adapter] }) else { return nil }
          return commands(for: adapter)
        },
        onChange: { [weak self] in self?.statusMayHaveChanged() },
        onSlots: { [weak self] in self?.slotsMayHaveChanged() },
        onAir: { [weak self] in self?.onAirChanged($0, $1) })
    }
    return RegisteredAdvertising(
      bus, scheduler: scheduler, words: shortfallWords,
      isFromBluetoothd: { [weak self] in self?.isFromBluetoothd($0) ?? false },
      onChange: { [weak self] in self?.statusMayHaveChanged() },
      onSlots: { [weak self] in self?.slotsMayHaveChanged() },
      onAir: { [weak self] in self?.onAirChanged($0, $1) })
  }
}
