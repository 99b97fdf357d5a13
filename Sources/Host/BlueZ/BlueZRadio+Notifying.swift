import Common
import HCI
import Journal
import Loop
import Radio

/// Values for clients: by bluetoothd to those that subscribed, by raw HCI to those that did not.
///
/// bluetoothd tells of the first subscriber of a characteristic and of the last one's end, not who it is, and sends a value
/// to all of them. So it is asked to send only where the client that the value is for is known to have subscribed: it was
/// the only one connected at that moment. Else the value goes by raw HCI to that client alone, which hears it whether it
/// subscribed or not; one that asked for indications then hears a notification.
extension BlueZRadio {
  func notify(_ value: [UInt8], of id: CharacteristicID, to link: LinkID, from number: Int) {
    guard let entry = links[link], let characteristic = applications[number]?[id], characteristic.canNotify else {
      return dropped(link)
    }
    characteristic.remember(value)
    if characteristic.isNotifying, characteristic.subscriber == entry.address || doors.raw.way == nil {
      characteristic.notify(value)
    } else if force(value, of: characteristic, to: entry) {
      counters.forcedNotifications += 1
    } else if characteristic.isNotifying {
      characteristic.notify(value)
    } else {
      dropped(link)
    }
  }

  private func dropped(_ link: LinkID) {
    counters.droppedNotifications += 1
    Log.shared.debug("A value is dropped: nobody has subscribed to it, or the link is gone", .link(link))
  }

  /// - Returns: whether it was sent.
  private func force(_ value: [UInt8], of characteristic: ServedCharacteristic, to entry: LinkTable.Entry) -> Bool {
    guard let raw = doors.raw.way, characteristic.handle != 0, let index = place?.index else { return false }
    do throws(HCIError) {
      let links = try raw.links(of: index)
      guard links.contains(where: { $0.isClient && $0.address == entry.address }) else { return false }
      let limit = ATTNotification.limit(mtu: entry.mtu ?? LinkTable.leastMTU)
      if value.count > limit {
        counters.cutNotifications += 1
        Log.shared.debug("A value of \(value.count) bytes is cut to \(limit)", .link(entry.id))
      }
      let notification = ATTNotification(handle: characteristic.handle, value: Array(value.prefix(limit)))
      let answer = raw.send(notification, to: entry.address, on: index) { [weak self] outcome in
        if case .failed(let error) = outcome { self?.note(error) }
      }
      return answer == .accepted
    } catch {
      Log.shared.debug("A value is not sent by raw HCI: \(error)", .link(entry.id))
      note(error)
      return false
    }
  }

  /// Whose subscription it must be that bluetoothd tells of; nil where that is not certain.
  func onlyClient() -> BluetoothAddress? {
    guard let raw = doors.raw.way, let index = place?.index, let links = try? raw.links(of: index) else { return nil }
    let clients = links.filter(\.isClient)
    return clients.count == 1 ? clients[0].address : nil
  }

  /// Raw HCI is for the controller in use.
  func prepareRawHCI() {
    guard let raw = doors.raw.way else { return }
    raw.closeAll()
    rawFailure = nil
    guard let index = place?.index else { return }
    do throws(HCIError) {
      try raw.open(index)
    } catch {
      Log.shared.debug("Raw HCI is not to be had: \(error)")
      note(error)
    }
  }

  private func note(_ error: HCIError) {
    // A controller that went is told by bluetoothd, and a link by its end.
    guard !error.isPassing else { return }
    rawFailure = error.description
    statusMayHaveChanged()
  }

  /// Why clients that do not subscribe hear nothing, and what to do; nil when they do, or nobody would say anything.
  var notifyingShortfall: String? {
    let reason =
      switch doors.raw {
      case .off: nil as String?
      case .open: rawFailure
      case .shut(let why): why
      }
    guard let reason, applications.values.contains(where: \.notifies) else { return nil }
    return "Wallets that never subscribe (Android) get no answer (\(reason)). \(KernelDoors.remedy("CAP_NET_RAW")),"
      + " or NotifyUnsubscribed=no."
  }
}
