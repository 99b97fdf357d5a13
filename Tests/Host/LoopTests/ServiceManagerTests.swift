import Common
import Glibc
import Loop
import Testing

/// These checks change the environment of the process. They are therefore one test in one loop iteration: a
/// dbus-daemon that another test starts meanwhile would wait for its readiness to be read.
@Suite struct ServiceManagerTests {
  @Test("Readiness, status and watchdog messages are sent to systemd with sd_notify")
  func conversation() async throws {
    var template = Array("/tmp/earshot-loop.XXXXXX".utf8CString)
    let folder = try #require(mkdtemp(&template).map { String(cString: $0) })
    let path = folder + "/notify"
    let descriptor = try listen(at: path)
    defer {
      close(descriptor)
      unlink(path)
      rmdir(folder)
    }
    try await onLoop {
      defer { for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC"] { unsetenv(name) } }
      ServiceManager.ready()
      #expect(ServiceManager.watchdogInterval == nil)
      #expect(ServiceManager.startWatchdog(on: HandTime(), isHealthy: { true }) == nil)
      setenv("NOTIFY_SOCKET", path, 1)
      setenv("WATCHDOG_USEC", "4000000", 1)
      ServiceManager.ready()
      ServiceManager.status("Two\nlines\r\nand\u{2028}more")
      ServiceManager.reloading(now: Instant(nanoseconds: 5_000_999))
      ServiceManager.stopping()
      #expect(
        heard(descriptor) == [
          "READY=1", "STATUS=Two lines and more", "RELOADING=1\nMONOTONIC_USEC=5000", "STOPPING=1",
        ])
      #expect(ServiceManager.watchdogInterval == .seconds(4))
      let time = HandTime()
      let health = Notes()
      let watchdog = try #require(ServiceManager.startWatchdog(on: time) { health.lines.isEmpty })
      #expect(heard(descriptor) == ["WATCHDOG=1"])
      time.set(to: 2)
      #expect(heard(descriptor) == ["WATCHDOG=1"])
      health.lines = ["sick"]
      time.set(to: 4)
      #expect(heard(descriptor).isEmpty)
      health.lines = []
      time.set(to: 6)
      #expect(heard(descriptor) == ["WATCHDOG=1"])
      watchdog.cancel()
      time.set(to: 20)
      #expect(heard(descriptor).isEmpty && time.timersLeft == 0)
    }
  }

  private func listen(at path: String) throws -> Int32 {
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
    let bound = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    try #require(descriptor >= 0 && bound == 0)
    return descriptor
  }

  private func heard(_ descriptor: Int32) -> [String] {
    var all: [String] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while case let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT)), count > 0 {
      all.append(String(decoding: buffer[..<count], as: UTF8.self))
    }
    return all
  }
}
