import CommandLine
import DBus
import Testing

@testable import Tool

@Suite("D-Bus errors in the tool")
struct FailureTests {
  @Test(
    "A D-Bus service that is not running and cannot be activated gives the failure `notRunning`",
    arguments: [
      "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner",
      "org.freedesktop.systemd1.NoSuchUnit", "org.freedesktop.systemd1.UnitMasked",
    ])
  func notRunning(name: String) {
    let failure = Failure(DBusError(name: name, message: "as the bus says it"), service: "org.earshot")
    #expect(failure.code == .notRunning)
    #expect(failure.text.hasPrefix("org.earshot is not running"))
    #expect(failure.text.contains("enable --now") == name.contains("systemd1"))
  }
}
