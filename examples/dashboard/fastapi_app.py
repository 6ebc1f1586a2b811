"""hooklane's dashboard inside a FastAPI application, behind its own login: uvicorn fastapi_app:app"""

import os

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse

from hooklane.fastapi import dashboard

DB = os.environ["HOOKLANE_DB"]


def is_operator(request: Request) -> bool:
    """Your own login: whatever your application knows of this request's session."""
    return request.cookies.get("session") == "operator"


operations = dashboard(
    DB, may=is_operator, login_url="/login", playground=True, behind_proxy=True, egress_allow=["127.0.0.0/8"]
)


def customer_of(request: Request) -> str | None:
    """Which tenant of hooklane this customer is, as your application knows it."""
    return request.cookies.get("customer")


customers = dashboard(DB, may=customer_of, tenant=customer_of, login_url="/login", behind_proxy=True)
app = FastAPI(lifespan=operations.lifespan)
app.mount("/hooklane", operations)
app.mount("/webhooks", customers)


@app.get("/login")
def login() -> dict[str, str]:
    return {"please": "sign in"}


@app.post("/login")
def sign_in() -> RedirectResponse:
    response = RedirectResponse("/hooklane/", 303)
    response.set_cookie("session", "operator", httponly=True, samesite="lax")
    return response


@app.post("/login/{customer}")
def sign_in_customer(customer: str) -> RedirectResponse:
    response = RedirectResponse("/webhooks/", 303)
    response.set_cookie("customer", customer, httponly=True, samesite="lax")
    return response
