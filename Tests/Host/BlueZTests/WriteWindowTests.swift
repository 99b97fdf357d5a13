import Common
import Radio
import Testing

@testable import BlueZ

@Suite("The order of operations on a link")
struct WriteWindowTests {
  private static let id = CharacteristicID(service: BluetoothUUID(short: 1), characteristic: BluetoothUUID(short: 2))

  private static func command(_ number: Int) -> WriteWindow.Operation {
    .write([UInt8(truncatingIfNeeded: number)], id, .command)
  }

  private static let request = WriteWindow.Operation.write([0xFF], id, .request)
  private static let written = LinkEvent.written(id, error: nil)

  private static func window(_ operations: [WriteWindow.Operation]) -> WriteWindow {
    var window = WriteWindow()
    for operation in operations { _ = window.add(operation) }
    return window
  }

  @Test("Up to eight write commands are pending on a link, and each answer allows one more")
  func commands() {
    var window = Self.window((0..<20).map(Self.command))
    var out: [UInt64] = []
    while let next = window.next() { out.append(next.number) }
    #expect(out.count == WriteWindow.commandLimit)
    #expect(window.finish(out[0], Self.written) == [Self.written])
    #expect(window.next()?.operation == Self.command(8))
    #expect(window.next() == nil)
  }

  @Test("A write request waits for all earlier commands, and later operations wait for it")
  func request() {
    var window = Self.window([Self.command(0), Self.command(1), Self.request, Self.command(2), .discover])
    let (first, second) = (window.next(), window.next())
    #expect(window.next() == nil)
    #expect(window.finish(first?.number ?? 0, Self.written).count == 1)
    #expect(window.next() == nil)
    #expect(window.finish(second?.number ?? 0, Self.written).count == 1)
    let third = window.next()
    #expect(third?.operation == Self.request)
    #expect(window.next() == nil)
    #expect(window.finish(third?.number ?? 0, .written(Self.id, error: .busy)) == [.written(Self.id, error: .busy)])
    #expect(window.next()?.operation == Self.command(2))
    #expect(window.next() == nil)
  }

  @Test("Answers to writes that arrive out of order are reported in the order of the writes")
  func order() {
    var window = Self.window((0..<3).map(Self.command))
    let numbers = (0..<3).compactMap { _ in window.next()?.number }
    let refused = LinkEvent.written(Self.id, error: .unlikely)
    #expect(window.finish(numbers[2], refused) == [])
    #expect(window.finish(numbers[1], Self.written) == [])
    #expect(window.finish(numbers[0], Self.written) == [Self.written, Self.written, refused])
    // A second report that the same write has ended is ignored.
    #expect(window.finish(numbers[0], Self.written) == [])
  }

  @Test("At most 1,024 operations wait on a link, and none after `removeAll`")
  func bounded() {
    var window = Self.window((0..<WriteWindow.waitingLimit).map(Self.command))
    let isTooMuch = !window.add(Self.request)
    #expect(isTooMuch)
    let first = window.next()
    let hasRoom = window.add(Self.request)
    #expect(hasRoom)
    window.removeAll()
    #expect(window.next() == nil)
    #expect(window.finish(first?.number ?? 0, Self.written) == [])
  }
}
