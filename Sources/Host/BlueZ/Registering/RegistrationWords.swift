import DBus
import Loop

/// Sentences for a person about a refused registration: bluetoothd's message, and what to do.
@LoopActor
struct RegistrationWords {
  private let kind: KeptRegistration.Kind
  private let adapter: String

  init(_ kind: KeptRegistration.Kind, _ adapter: String) {
    self.kind = kind
    self.adapter = adapter
  }

  func sentence(for error: DBusError) -> String {
    if error.is(.timeout) {
      return "bluetoothd gave no answer to \(kind.register) within \(KeptRegistration.timeLimit.components.seconds) s."
        + " If this goes on: systemctl restart bluetooth."
    }
    if error.is(.accessDenied) {
      return "The bus does not let this program \(act): is its D-Bus policy installed? (\(error.message))"
    }
    return "bluetoothd refuses to \(act) on \(adapter) (\(error.name.lastPart): \(error.message)). \(advice(error))"
  }

  private var act: String {
    switch kind {
    case .application: "serve GATT"
    case .advertisement: "advertise"
    case .discovery: "scan"
    }
  }

  private func advice(_ error: DBusError) -> String {
    switch (kind, error.name) {
    case (.advertisement, BlueZName.Failure.notPermitted):
      ManagedSlot.noRoom
    case (.application, kind.isThereAlready), (.advertisement, kind.isThereAlready):
      "It is taken away and registered again."
    default: "It is tried again; journalctl -u bluetooth may say more."
    }
  }
}

extension String {
  /// The text after the last full stop.
  fileprivate var lastPart: Substring { split(separator: ".").last ?? self[...] }
}
