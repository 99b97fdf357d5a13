/// A first-in, first-out queue. Both ends work in constant time.
public struct Fifo<Element> {
  @usableFromInline var elements: [Element?] = []
  @usableFromInline var head = 0

  @inlinable public init() {}

  @inlinable public var isEmpty: Bool { head == elements.count }
  @inlinable public var count: Int { elements.count - head }
  /// The element that `popFirst` removes next.
  @inlinable public var first: Element? { isEmpty ? nil : elements[head] }

  @inlinable
  public mutating func append(_ element: Element) {
    elements.append(element)
  }

  /// Removes and returns the oldest element; nil if the queue is empty.
  @discardableResult @inlinable
  public mutating func popFirst() -> Element? {
    guard !isEmpty else { return nil }
    let element = elements[head]
    elements[head] = nil
    head += 1
    if head == elements.count {
      elements.removeAll(keepingCapacity: true)
      head = 0
    } else if head > 64, head > elements.count / 2 {
      elements.removeFirst(head)
      head = 0
    }
    return element
  }

  @inlinable
  public mutating func removeAll() {
    elements = []
    head = 0
  }
}

extension Fifo: Sendable where Element: Sendable {}
