import DBus
import Foundation
import Testing

@testable import BlueZ

@Suite("Warnings about what the machine discloses")
struct DisclosureTests {
  private let host = ProcessInfo.processInfo.hostName

  private func adapter(_ alias: String?) -> Adapter {
    var adapter = Adapter("/org/bluez/hci0")
    adapter.alias = alias
    return adapter
  }

  private func sentences(_ alias: String?, privacy: String) -> [String] {
    Disclosure.sentences(adapter(alias), DaemonConfiguration("[General]\nPrivacy = \(privacy)\n"))
  }

  @Test("A permanent Bluetooth address is reported if privacy is off in bluetoothd")
  func address() throws {
    let sentence = try #require(sentences(nil, privacy: "off").first)
    #expect(sentence.contains("a fixed address") && sentence.contains("Privacy=device in [General]"))
    #expect(Disclosure.sentences(adapter(nil), DaemonConfiguration()) == [sentence])
    #expect(sentences(nil, privacy: "device").isEmpty)
  }

  @Test("An adapter alias equal to the host name is reported, even with a suffix", arguments: ["", " #2"])
  func name(suffix: String) throws {
    let sentence = try #require(sentences(host + suffix, privacy: "device").first)
    #expect(sentence.contains("machine's name") && sentence.contains("bluetoothctl system-alias"))
    #expect(sentences("kiosk", privacy: "device").isEmpty)
  }

  @Test(
    "An adapter alias equal to the pretty host name is reported, with any quoting of the name",
    arguments: [
      #"PRETTY_HOSTNAME="Alice's laptop""#, "CHASSIS=laptop\nPRETTY_HOSTNAME=Alice's laptop  \n",
      #"PRETTY_HOSTNAME="Alice\'s laptop""#,
    ])
  func prettyName(machineInfo: String) throws {
    let host = HostNames(host: "alice", machineInfo: machineInfo)
    for alias in ["Alice's laptop", "Alice's laptop #2", "alice", "alice #2"] {
      #expect(Disclosure.sentences(adapter(alias), DaemonConfiguration("[General]\nPrivacy=device"), host).count == 1)
    }
    for alias in ["Alice", "kiosk", ""] {
      #expect(Disclosure.sentences(adapter(alias), DaemonConfiguration("[General]\nPrivacy=device"), host).isEmpty)
    }
  }

  @Test("An empty pretty host name is ignored, and a badly quoted one is read without its quotation marks")
  func noNames() {
    #expect(HostNames(host: "", machineInfo: "PRETTY_HOSTNAME=\n").names.isEmpty)
    #expect(HostNames(host: nil, machineInfo: nil).names.isEmpty)
    #expect(HostNames(host: "a", machineInfo: "PRETTY_HOSTNAME='b c'\nPRETTY_HOSTNAME=").names == ["a"])
    #expect(HostNames(host: "a", machineInfo: "PRETTY_HOSTNAME='b \\ c'").names == ["a", "b \\ c"])
  }

  @Test("Without an adapter nothing is reported as disclosed")
  func none() {
    #expect(Disclosure.sentences(nil, DaemonConfiguration()).isEmpty)
  }
}
